#pragma once

#include <torch/csrc/autograd/edge.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/autograd/gradients.hpp"
#include "runtime/autograd/node_index.hpp"
#include "runtime/base/result.hpp"

namespace rehearse::autograd {

struct Root;

/// Where a pass starts, checked: an edge and a gradient for each root.
struct RootEdges {
  std::vector<torch::autograd::Edge> edges;
  std::vector<at::Tensor> gradients;
};

/// `bad_argument` if a root has no history, or its gradient does not fit.
Result<RootEdges> root_edges(std::span<const Root> roots);

enum class NodeKind : std::uint8_t { ordinary, leaf, receive, send };

struct PlannedNode {
  torch::autograd::Node* node = nullptr;
  std::uint64_t sequence = 0;
  std::uint32_t segment = 0;    ///< rank of the segment that made it
  std::uint32_t rank = 0;       ///< its turn in canonical order
  std::uint32_t waits_for = 0;  ///< contributions, and a send node's message, before it can run
  std::uint32_t first_edge = 0;
  std::uint32_t edges = 0;
  std::uint32_t first_slot = 0;
  std::uint32_t slots = 0;
  std::uint32_t leaf = 0;  ///< of a leaf: its number among the leaves
  NodeKind kind = NodeKind::ordinary;
  bool needed = true;
};

struct PlannedEdge {
  std::uint32_t target = NodeIndex::kNone;  ///< none: nobody wants this gradient
  std::uint32_t slot = 0;
  std::uint32_t position = 0;  ///< among the contributions to the slot, in canonical order
};

/// One input of one node: where contributions are summed.
struct PlannedSlot {
  std::uint32_t contributions = 0;
  std::uint32_t first = 0;  ///< number of the first contribution in the plan
};

struct PlannedLeaf {
  std::uint32_t node = 0;
  std::uint32_t segment = 0;  ///< of the first use
  FirstUse first_use;
};

/// What a pass runs on this worker and in which order contributions are added: the part of torch's
/// graph that roots and live send nodes reach, in flat arrays. The order is that of a dry run of
/// torch's engine in which nodes are keyed by (segment rank, sequence number): among the nodes that
/// are ready, the last in the program comes first. Sorting by keys alone would not do, because a
/// view that is written to gets a new grad_fn, younger than its consumer.
class GraphPlan {
 public:
  struct Options {
    const Segments* segments = nullptr;              ///< null: sequence numbers alone
    std::span<torch::autograd::Node* const> wanted;  ///< leaves to capture; empty: all
  };

  /// Plans anew. The graph must stay alive as long as the plan is used. Root edges come first in
  /// every sum, in their order.
  void build(std::span<const torch::autograd::Edge> roots,
             std::span<torch::autograd::Node* const> sends, const Options& options);

  std::uint32_t find(const torch::autograd::Node* node) { return index_.find(node); }

  /// Those that the pass reaches, by canonical order of their first use.
  std::vector<at::Tensor> leaves_in_order() const;

  std::vector<PlannedNode> nodes;
  std::vector<PlannedEdge> edges;
  std::vector<PlannedEdge> roots;
  std::vector<PlannedSlot> slots;
  std::vector<PlannedLeaf> leaves;
  std::vector<std::uint32_t> by_rank;
  std::uint32_t contributions = 0;
  std::uint32_t needed = 0;
  /// Edges whose target's segment comes after the producer's: data flowed against the sequential
  /// order, so handlers shared state and the program has no inline run.
  std::uint32_t key_inversions = 0;

 private:
  struct HeapEntry {
    std::uint32_t segment;
    std::uint32_t index;
    std::uint64_t sequence;
    bool operator<(const HeapEntry& other) const;
  };

  void clear();
  std::uint32_t visit(torch::autograd::Node* node);
  PlannedEdge connect(const torch::autograd::Edge& edge);
  void discover();
  void rank_nodes();
  void finish_node(PlannedNode& planned);
  void note_use(const PlannedNode& consumer, std::uint32_t input, const PlannedNode& leaf);
  void push_if_ready(std::uint32_t index);
  void number_contributions();
  void prune(std::span<torch::autograd::Node* const> wanted);
  void drop_unneeded(PlannedEdge& edge);

  const Segments* segments_ = nullptr;
  NodeIndex index_;
  std::vector<HeapEntry> heap_;
  std::vector<std::uint32_t> pending_;
};

}  // namespace rehearse::autograd
