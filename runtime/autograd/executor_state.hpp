#pragma once

#include <torch/csrc/autograd/engine.h>

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/autograd/cut_node_types.hpp"
#include "runtime/autograd/executor.hpp"
#include "runtime/autograd/graph_plan.hpp"

namespace rehearse::autograd {

/// What an `Executor` keeps. executor_plan.cpp prepares a pass, executor.cpp runs it.
struct Executor::State {
  using Node = torch::autograd::Node;
  using variable_list = torch::autograd::variable_list;

  // Which step of the pass computes: the node with this rank itself (part 0), or the addition of
  // its k-th output to what others contributed (part 1+k). Roots come before all nodes, as place 0.
  struct Origin {
    std::uint32_t place = 0;
    std::uint32_t part = 0;
  };

  // A contribution that came before its turn.
  struct Held {
    at::Tensor gradient;
    Origin origin;
    bool here = false;
  };

  GraphPlan plan;
  bool has_plan = false;  // `plan` is of the roots, sends and options that are here
  ExecutorOptions options;
  RootEdges roots;  // with the sends, what keeps the graph alive
  std::vector<std::shared_ptr<SendNode>> sends;
  std::unordered_map<PairId, std::uint32_t> send_index;  // pair -> planned node
  std::unordered_map<PairId, std::vector<at::Tensor>> fed;

  std::vector<std::uint32_t> waiting_for;  // by node
  std::vector<at::Tensor> sums;            // by slot
  std::vector<std::uint32_t> folded;       // by slot: contributions added so far
  std::vector<Held> held;                  // by contribution; empty without send nodes
  std::vector<std::uint32_t> ready;        // a heap of ranks, lowest first
  std::uint32_t remaining = 0;
  std::uint32_t running = NodeIndex::kNone;

  GradientMap staged;
  std::vector<OutgoingGradients> outbox;
  variable_list inputs;                   // of the running node; here to keep its memory
  torch::autograd::InputBuffer adder{0};  // lends torch's addition, see `fold`

  bool records() const { return options.create_graph && options.segments && options.path; }
  bool releases_early() const {
    return !options.rerunnable && !options.retain_graph && !options.create_graph;
  }

  bool is_planned_for(const RootEdges& edges, std::span<const std::shared_ptr<SendNode>> its_sends,
                      const ExecutorOptions& its_options) const;
  Status build_plan();
  Status check_contexts() const;
  void prepare_buffers();
  void seed();
  void make_ready(std::uint32_t node);
  void run(std::uint32_t index);
  void take_inputs(const PlannedNode& planned);
  void capture(const PlannedNode& planned);
  variable_list call(const PlannedNode& planned);
  variable_list apply(const PlannedNode& planned, variable_list&& gradients);
  void send_on(const PlannedNode& planned, variable_list& outputs);
  void deposit(const PlannedEdge& edge, at::Tensor&& gradient, Origin origin);
  void fold(const PlannedEdge& edge, at::Tensor&& gradient, Origin origin);
  void fold_held(const PlannedEdge& edge);
  void add(const PlannedEdge& edge, at::Tensor&& gradient);
  void record(std::uint64_t since, Origin origin);
  static void check_for_nan(const variable_list& outputs);
  void clear_run();
  void clear();
};

}  // namespace rehearse::autograd
