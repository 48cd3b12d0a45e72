// Prepares a pass on this worker, or takes over what the pass before had prepared.

#include <ATen/ops/any.h>
#include <ATen/ops/isnan.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <stdexcept>

#include "runtime/autograd/executor_state.hpp"
#include "runtime/base/check.hpp"

namespace rehearse::autograd {
namespace {

using torch::autograd::InputBuffer;
using torch::autograd::Node;
using torch::autograd::variable_list;

Failure bad_argument(std::string message) {
  return {Code::bad_argument, std::move(message), {}, 0};
}

}  // namespace

// What lies behind a node never changes, so the plan for the same nodes is the same.
bool Executor::State::is_planned_for(const RootEdges& edges,
                                     std::span<const std::shared_ptr<SendNode>> its_sends,
                                     const ExecutorOptions& its_options) const {
  const auto same_tensor = [](const at::Tensor& a, const at::Tensor& b) { return a.is_same(b); };
  return has_plan && edges.edges == roots.edges && std::ranges::equal(its_sends, sends) &&
         its_options.context == options.context && its_options.segments == options.segments &&
         its_options.order == options.order &&
         std::ranges::equal(its_options.inputs, options.inputs, same_tensor);
}

Status Executor::State::build_plan() {
  std::vector<Node*> nodes;
  for (const auto& send : sends) nodes.push_back(send.get());
  std::vector<std::shared_ptr<Node>> wanted;
  std::vector<Node*> wanted_nodes;
  for (const at::Tensor& leaf : options.inputs) {
    if (!leaf.defined() || !leaf.is_leaf() || !leaf.requires_grad()) {
      return bad_argument("`inputs` takes leaves that require grad");
    }
    wanted.push_back(torch::autograd::impl::grad_accumulator(leaf));
    wanted_nodes.push_back(wanted.back().get());
  }
  const bool by_path = options.segments && options.order != Order::sequence_only;
  if (options.segments) options.segments->freeze();
  plan.build(roots.edges, nodes, {by_path ? options.segments : nullptr, wanted_nodes});
  for (const auto& send : sends) send_index.emplace(send->pair(), plan.find(send.get()));
  REHEARSE_CHECK(send_index.size() == sends.size(), "a pass was given a pair twice");
  Status status = check_contexts();
  has_plan = status.ok();
  return status;
}

Status Executor::State::check_contexts() const {
  for (const PlannedNode& planned : plan.nodes) {
    if (planned.kind != NodeKind::receive) continue;
    if (static_cast<RecvNode*>(planned.node)->received().context != options.context) {
      return bad_argument(planned.node->name() +
                          ": the graph reaches a tensor that was received in another context");
    }
  }
  return {};
}

void Executor::State::prepare_buffers() {
  waiting_for.resize(plan.nodes.size());
  std::uint32_t widest = 0;
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    waiting_for[i] = plan.nodes[i].waits_for;
    widest = std::max(widest, plan.nodes[i].slots);
  }
  sums.resize(plan.slots.size());
  folded.assign(plan.slots.size(), 0);
  if (!sends.empty()) held.resize(plan.contributions);
  if (adder.buffer.size() < widest) adder = InputBuffer(widest);
  remaining = plan.needed;
}

void Executor::State::check_for_nan(const variable_list& outputs) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const at::Tensor& output = outputs[i];
    if (!output.defined()) continue;
    const at::Tensor values = output.is_sparse() ? output._values() : output;
    if (at::isnan(values).any().item<bool>()) {
      throw std::runtime_error(fmt::format("gave NaN in output {} of {}", i, outputs.size()));
    }
  }
}

}  // namespace rehearse::autograd
