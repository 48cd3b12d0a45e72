#include "runtime/autograd/executor.hpp"

#include <ATen/SequenceNumber.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "runtime/autograd/executor_state.hpp"
#include "runtime/base/check.hpp"

namespace rehearse::autograd {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Node;
using torch::autograd::variable_list;

}  // namespace

// Duplicated roots are added here, so the pass's grad mode is on.
void Executor::State::seed() {
  const c10::AutoGradMode mode(options.create_graph);
  for (std::uint32_t i = 0; i < plan.nodes.size(); ++i) {
    if (waiting_for[i] == 0 && plan.nodes[i].needed) make_ready(i);
  }
  for (std::uint32_t i = 0; i < plan.roots.size(); ++i) {
    if (plan.roots[i].target == NodeIndex::kNone) continue;
    deposit(plan.roots[i], std::move(roots.gradients[i]), {0, 1 + i});
  }
  roots.gradients.clear();
}

void Executor::State::make_ready(std::uint32_t node) {
  ready.push_back(plan.nodes[node].rank);
  std::push_heap(ready.begin(), ready.end(), std::greater<>());
}

void Executor::State::run(std::uint32_t index) {
  const PlannedNode& planned = plan.nodes[index];
  running = index;
  const std::uint64_t since = records() ? at::sequence_number::peek() : 0;
  take_inputs(planned);
  if (planned.kind == NodeKind::leaf) {
    capture(planned);
    record(since, {planned.rank + 1, 0});
  } else {
    variable_list outputs = call(planned);
    record(since, {planned.rank + 1, 0});
    send_on(planned, outputs);
  }
  inputs.clear();
  running = NodeIndex::kNone;
  --remaining;
}

void Executor::State::take_inputs(const PlannedNode& planned) {
  Node& node = *planned.node;
  if (planned.kind == NodeKind::send) {
    inputs = std::move(fed.at(static_cast<SendNode&>(node).pair()));
    return;
  }
  for (std::uint32_t i = 0; i < planned.slots; ++i) {
    inputs.push_back(std::move(sums[planned.first_slot + i]));
  }
  for (const auto& hook : node.tensor_pre_hooks()) inputs = (*hook)(inputs);
  for (const auto& hook : node.retains_grad_hooks()) inputs = (*hook.second)(inputs);
  for (const auto& hook : node.pre_hooks()) inputs = (*hook)(inputs);
}

// Stands for running an AccumulateGrad node. Hooks run for an undefined gradient too.
void Executor::State::capture(const PlannedNode& planned) {
  auto& node = static_cast<AccumulateGrad&>(*planned.node);
  if (inputs[0].defined()) {
    staged.accumulate(node.variable, inputs[0], 1, plan.leaves[planned.leaf].first_use);
  }
  variable_list outputs;
  for (const auto& hook : node.post_hooks()) outputs = (*hook)(outputs, inputs);
}

variable_list Executor::State::call(const PlannedNode& planned) {
  Node& node = *planned.node;
  if (releases_early()) node.will_release_variables();
  const bool hooked = !node.post_hooks().empty();
  variable_list outputs =
      hooked ? apply(planned, variable_list(inputs)) : apply(planned, std::move(inputs));
  torch::autograd::validate_outputs(node.next_edges(), outputs, [](const std::string& message) {
    return "returned an invalid gradient at " + message;
  });
  if (options.detect_anomaly) check_for_nan(outputs);
  for (const auto& hook : node.post_hooks()) outputs = (*hook)(outputs, inputs);
  if (releases_early()) node.release_variables();
  return outputs;
}

variable_list Executor::State::apply(const PlannedNode& planned, variable_list&& gradients) {
  Node& node = *planned.node;
  if (planned.kind != NodeKind::receive) return node(std::move(gradients));
  struct Connected {
    RecvNode& node;
    ~Connected() { node.set_outbox(nullptr); }
  } connected{static_cast<RecvNode&>(node)};
  connected.node.set_outbox(&outbox);
  variable_list outputs = node(std::move(gradients));
  outbox.back().place = planned.rank + 1;
  return outputs;
}

void Executor::State::send_on(const PlannedNode& planned, variable_list& outputs) {
  const std::size_t edges = std::min<std::size_t>(planned.edges, outputs.size());
  for (std::uint32_t k = 0; k < edges; ++k) {
    const PlannedEdge& edge = plan.edges[planned.first_edge + k];
    if (edge.target == NodeIndex::kNone) continue;
    deposit(edge, std::move(outputs[k]), {planned.rank + 1, 1 + k});
  }
}

void Executor::State::deposit(const PlannedEdge& edge, at::Tensor&& gradient, Origin origin) {
  if (edge.position == folded[edge.slot] || options.order == Order::arrival) {
    fold(edge, std::move(gradient), origin);
    if (!held.empty() && options.order != Order::arrival) fold_held(edge);
  } else {
    // Without messages from outside, nodes run in canonical order and nothing is ever early.
    REHEARSE_CHECK(!held.empty(), "a contribution came out of order in a pass without sends");
    held[plan.slots[edge.slot].first + edge.position] = {std::move(gradient), origin, true};
  }
  if (--waiting_for[edge.target] == 0) make_ready(edge.target);
}

void Executor::State::fold(const PlannedEdge& edge, at::Tensor&& gradient, Origin origin) {
  const std::uint64_t since = records() ? at::sequence_number::peek() : 0;
  add(edge, std::move(gradient));
  ++folded[edge.slot];
  record(since, origin);
}

void Executor::State::fold_held(const PlannedEdge& edge) {
  const PlannedSlot& slot = plan.slots[edge.slot];
  while (folded[edge.slot] < slot.contributions) {
    Held& next = held[slot.first + folded[edge.slot]];
    if (!next.here) return;
    next.here = false;
    fold(edge, std::move(next.gradient), next.origin);
  }
}

// Torch's own addition decides when a buffer may be reused and how sparse tensors add; it works on
// an InputBuffer, of which one is kept instead of four vectors a node.
void Executor::State::add(const PlannedEdge& edge, at::Tensor&& gradient) {
  if (!gradient.defined()) return;
  at::Tensor& sum = sums[edge.slot];
  if (!sum.defined()) {
    sum = std::move(gradient);
    return;
  }
  const PlannedNode& target = plan.nodes[edge.target];
  const std::uint32_t input = edge.slot - target.first_slot;
  at::Tensor& lent = adder.buffer[input];
  lent = std::move(sum);
  adder.add(input, std::move(gradient), std::nullopt, std::nullopt, target.node);
  sum = std::move(lent);
}

void Executor::State::record(std::uint64_t since, Origin origin) {
  if (!records()) return;
  const std::uint64_t now = at::sequence_number::peek();
  if (now == since) return;
  options.segments->open(since, options.path, origin.place, origin.part);
  options.segments->close(now);
}

void Executor::State::clear() {
  clear_run();
  roots = {};
  sends.clear();
  send_index.clear();
  has_plan = false;
}

// Keeps the plan and the graph it is of.
void Executor::State::clear_run() {
  roots.gradients.clear();
  fed.clear();
  sums.clear();
  held.clear();
  ready.clear();
  staged.clear();
  outbox.clear();
  inputs.clear();
  std::fill(adder.buffer.begin(), adder.buffer.end(), at::Tensor());
  remaining = 0;
  running = NodeIndex::kNone;
}

Executor::Executor() : state_(std::make_unique<State>()) {}
Executor::~Executor() = default;
Executor::Executor(Executor&&) noexcept = default;
Executor& Executor::operator=(Executor&&) noexcept = default;

Status Executor::plan(std::span<const Root> roots, std::span<const std::shared_ptr<SendNode>> sends,
                      ExecutorOptions options) {
  State& state = *state_;
  Result<RootEdges> edges = root_edges(roots);
  const bool again = edges.ok() && state.is_planned_for(edges.value(), sends, options);
  again ? state.clear_run() : state.clear();
  if (!edges.ok()) return edges.failure();
  state.options = std::move(options);
  state.sends.assign(sends.begin(), sends.end());
  state.roots = std::move(edges).value();
  if (!again) {
    if (Status built = state.build_plan(); !built.ok()) return built;
  }
  state.prepare_buffers();
  state.seed();
  return {};
}

bool Executor::expects(PairId pair) const {
  return state_->send_index.contains(pair) && !state_->fed.contains(pair);
}

Status Executor::feed(PairId pair, std::vector<at::Tensor> gradients) {
  if (!expects(pair)) {
    return Failure{
        Code::corrupt,
        fmt::format("gradients of pair {}:{} came unasked or twice", pair.owner(), pair.counter()),
        {},
        state_->options.context};
  }
  const std::uint32_t index = state_->send_index.at(pair);
  const PlannedNode& planned = state_->plan.nodes[index];
  if (gradients.size() != planned.edges) {
    return Failure{Code::corrupt,
                   fmt::format("{} gradients came for a message of {} tensors that require grad",
                               gradients.size(), planned.edges),
                   {},
                   state_->options.context};
  }
  state_->fed.emplace(pair, std::move(gradients));
  if (--state_->waiting_for[index] == 0 && planned.needed) state_->make_ready(index);
  return {};
}

Result<bool> Executor::run_slice(std::size_t max_nodes) {
  State& state = *state_;
  REHEARSE_CHECK(state.running == NodeIndex::kNone, "a failed pass is run on; drop it");
  const c10::AutoGradMode mode(state.options.create_graph);
  try {
    for (; max_nodes > 0 && !state.ready.empty(); --max_nodes) {
      std::pop_heap(state.ready.begin(), state.ready.end(), std::greater<>());
      const std::uint32_t rank = state.ready.back();
      state.ready.pop_back();
      state.run(state.plan.by_rank[rank]);
    }
  } catch (const std::exception& error) {
    return Failure{Code::pass_failed,
                   state.plan.nodes[state.running].node->name() + ": " + error.what(),
                   {},
                   state.options.context};
  }
  return !state.ready.empty();
}

bool Executor::done() const { return state_->remaining == 0; }

std::vector<OutgoingGradients> Executor::take_outbox() { return std::exchange(state_->outbox, {}); }

GradientMap& Executor::staged() { return state_->staged; }

void Executor::release() {
  State& state = *state_;
  REHEARSE_CHECK(done(), "a pass is committed before it is done");
  if (state.options.retain_graph || state.options.create_graph || !state.options.rerunnable) return;
  for (const std::uint32_t index : state.plan.by_rank) {
    const PlannedNode& planned = state.plan.nodes[index];
    if (planned.needed) planned.node->release_variables();
  }
}

void Executor::drop() { state_->clear(); }

std::uint32_t Executor::place(PairId pair) const {
  return state_->plan.nodes[state_->send_index.at(pair)].rank + 1;
}

std::size_t Executor::nodes() const { return state_->plan.nodes.size(); }

std::vector<at::Tensor> Executor::leaves() const { return state_->plan.leaves_in_order(); }

std::uint32_t Executor::key_inversions() const { return state_->plan.key_inversions; }

}  // namespace rehearse::autograd
