#include "runtime/autograd/graph_plan.hpp"

#include <ATen/ops/ones_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <tuple>
#include <typeinfo>

#include "runtime/autograd/cut_node_types.hpp"
#include "runtime/autograd/executor.hpp"
#include "runtime/autograd/segments.hpp"
#include "runtime/base/check.hpp"

namespace rehearse::autograd {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Edge;
using torch::autograd::Node;

constexpr std::uint32_t kLast = NodeIndex::kNone;

NodeKind kind_of(const Node& node) {
  if (node.num_outputs() > 0) return NodeKind::ordinary;
  if (typeid(node) == typeid(RecvNode)) return NodeKind::receive;
  return dynamic_cast<const AccumulateGrad*>(&node) ? NodeKind::leaf : NodeKind::ordinary;
}

Failure bad_argument(std::string message) {
  return {Code::bad_argument, std::move(message), {}, 0};
}

Result<at::Tensor> gradient_of(const Root& root, std::size_t number) {
  if (root.gradient.defined()) return root.gradient;
  if (root.tensor.numel() != 1 || !at::isFloatingType(root.tensor.scalar_type())) {
    return bad_argument(fmt::format(
        "root {} needs a gradient: only for a real tensor with one element is it taken to be one",
        number));
  }
  return at::ones_like(root.tensor, at::MemoryFormat::Contiguous);
}

}  // namespace

Result<RootEdges> root_edges(std::span<const Root> roots) {
  RootEdges result;
  for (std::size_t i = 0; i < roots.size(); ++i) {
    if (!roots[i].tensor.defined() || !roots[i].tensor.requires_grad()) {
      return bad_argument(fmt::format("root {} does not require grad: nothing leads back", i));
    }
    Result<at::Tensor> gradient = gradient_of(roots[i], i);
    if (!gradient.ok()) return gradient.failure();
    result.edges.push_back(torch::autograd::impl::gradient_edge(roots[i].tensor));
    result.gradients.push_back(std::move(gradient).value());
  }
  try {
    torch::autograd::validate_outputs(result.edges, result.gradients,
                                      [](const std::string& message) {
                                        return "the gradient of a root does not fit: " + message;
                                      });
  } catch (const std::exception& error) {
    return bad_argument(error.what());
  }
  return result;
}

bool GraphPlan::HeapEntry::operator<(const HeapEntry& other) const {
  return std::tie(segment, sequence, other.index) < std::tie(other.segment, other.sequence, index);
}

void GraphPlan::build(std::span<const Edge> root_edges, std::span<Node* const> sends,
                      const Options& options) {
  clear();
  segments_ = options.segments;
  for (const Edge& root : root_edges) roots.push_back(connect(root));
  for (Node* send : sends) {
    PlannedNode& planned = nodes[visit(send)];
    planned.kind = NodeKind::send;
    ++planned.waits_for;
  }
  discover();
  rank_nodes();
  number_contributions();
  needed = static_cast<std::uint32_t>(nodes.size());
  if (!options.wanted.empty()) prune(options.wanted);
}

void GraphPlan::clear() {
  index_.reset(static_cast<std::uint32_t>(nodes.size()));
  nodes.clear();
  edges.clear();
  roots.clear();
  slots.clear();
  leaves.clear();
  by_rank.clear();
  key_inversions = 0;
}

std::uint32_t GraphPlan::visit(Node* node) {
  const auto [number, fresh] = index_.insert(node);
  if (!fresh) return number;
  PlannedNode& planned = nodes.emplace_back();
  planned.node = node;
  planned.sequence = node->sequence_nr();
  planned.edges = node->num_outputs();
  planned.slots = node->num_inputs();
  planned.first_slot = static_cast<std::uint32_t>(slots.size());
  slots.resize(slots.size() + planned.slots);
  planned.kind = kind_of(*node);
  if (planned.kind == NodeKind::leaf) {
    planned.segment = kLast;
    planned.leaf = static_cast<std::uint32_t>(leaves.size());
    leaves.push_back({number, kLast, FirstUse()});
  } else if (segments_) {
    planned.segment = segments_->rank(planned.sequence);
  }
  return number;
}

PlannedEdge GraphPlan::connect(const Edge& edge) {
  if (!edge.is_valid()) return {};
  const std::uint32_t target = visit(edge.function.get());
  PlannedNode& planned = nodes[target];
  REHEARSE_CHECK(edge.input_nr < planned.slots, "an edge to an input that its node does not have");
  ++planned.waits_for;
  return {target, planned.first_slot + edge.input_nr, 0};
}

// Breadth first; `nodes` grows while it is walked.
void GraphPlan::discover() {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].first_edge = static_cast<std::uint32_t>(edges.size());
    for (const Edge& edge : nodes[i].node->next_edges()) {
      const PlannedEdge planned = connect(edge);
      edges.push_back(planned);
    }
  }
}

void GraphPlan::push_if_ready(std::uint32_t index) {
  if (pending_[index] > 0) return;
  heap_.push_back({nodes[index].segment, index, nodes[index].sequence});
  std::push_heap(heap_.begin(), heap_.end());
}

// In the dry run roots have been executed and send nodes have their messages.
void GraphPlan::rank_nodes() {
  pending_.resize(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    pending_[i] = nodes[i].waits_for - (nodes[i].kind == NodeKind::send ? 1 : 0);
  }
  for (PlannedEdge& root : roots) {
    --pending_[root.target];
    root.position = slots[root.slot].contributions++;
  }
  for (std::uint32_t i = 0; i < nodes.size(); ++i) push_if_ready(i);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end());
    PlannedNode& planned = nodes[heap_.back().index];
    planned.rank = static_cast<std::uint32_t>(by_rank.size());
    by_rank.push_back(heap_.back().index);
    heap_.pop_back();
    finish_node(planned);
  }
  REHEARSE_CHECK(by_rank.size() == nodes.size(), "the autograd graph has a cycle");
}

void GraphPlan::finish_node(PlannedNode& planned) {
  for (std::uint32_t k = 0; k < planned.edges; ++k) {
    PlannedEdge& edge = edges[planned.first_edge + k];
    if (edge.target == NodeIndex::kNone) continue;
    const PlannedNode& target = nodes[edge.target];
    edge.position = slots[edge.slot].contributions++;
    if (target.kind == NodeKind::leaf) {
      note_use(planned, k, target);
    } else if (target.segment > planned.segment && planned.segment != 0) {
      ++key_inversions;
    }
    --pending_[edge.target];
    push_if_ready(edge.target);
  }
}

void GraphPlan::note_use(const PlannedNode& consumer, std::uint32_t input,
                         const PlannedNode& target) {
  PlannedLeaf& leaf = leaves[target.leaf];
  const FirstUse use{consumer.sequence, input};
  if (std::tie(consumer.segment, use.sequence, use.input) <
      std::tie(leaf.segment, leaf.first_use.sequence, leaf.first_use.input)) {
    leaf.segment = consumer.segment;
    leaf.first_use = use;
  }
}

void GraphPlan::number_contributions() {
  contributions = 0;
  for (PlannedSlot& slot : slots) {
    slot.first = contributions;
    contributions += slot.contributions;
  }
}

std::vector<at::Tensor> GraphPlan::leaves_in_order() const {
  std::vector<PlannedLeaf> order = leaves;
  std::sort(order.begin(), order.end(), [](const PlannedLeaf& left, const PlannedLeaf& right) {
    return std::tie(left.segment, left.first_use.sequence, left.first_use.input) <
           std::tie(right.segment, right.first_use.sequence, right.first_use.input);
  });
  std::vector<at::Tensor> tensors;
  for (const PlannedLeaf& leaf : order) {
    tensors.push_back(static_cast<AccumulateGrad&>(*nodes[leaf.node].node).variable);
  }
  return tensors;
}

// Keeps what leads to a wanted leaf or to another worker. Positions stay: all producers of a node
// that is needed are needed.
void GraphPlan::prune(std::span<Node* const> wanted) {
  needed = 0;
  for (auto number = by_rank.rbegin(); number != by_rank.rend(); ++number) {
    PlannedNode& planned = nodes[*number];
    planned.needed = planned.kind == NodeKind::receive ||
                     std::find(wanted.begin(), wanted.end(), planned.node) != wanted.end();
    for (std::uint32_t k = 0; k < planned.edges; ++k) {
      PlannedEdge& edge = edges[planned.first_edge + k];
      drop_unneeded(edge);
      planned.needed |= edge.target != NodeIndex::kNone;
    }
    needed += planned.needed ? 1 : 0;
  }
  for (PlannedEdge& root : roots) drop_unneeded(root);
}

void GraphPlan::drop_unneeded(PlannedEdge& edge) {
  if (edge.target != NodeIndex::kNone && !nodes[edge.target].needed) {
    edge.target = NodeIndex::kNone;
  }
}

}  // namespace rehearse::autograd
