#include "runtime/worker/dist_autograd.hpp"

#include <utility>

namespace rehearse::dist_autograd {

void backward(Worker& worker, ContextId context, const std::vector<at::Tensor>& roots,
              const BackwardOptions& options) {
  worker.autograd().backward(context, roots, options);
}

GradientMap get_gradients(Worker& worker, ContextId context) {
  GradientMap gradients;
  for (auto& entry : worker.autograd().gradients(context)) {
    gradients.push_back({std::move(entry.leaf), std::move(entry.gradient)});
  }
  return gradients;
}

std::vector<at::Tensor> get_gradients(Worker& worker, ContextId context,
                                      const std::vector<at::Tensor>& parameters) {
  std::map<const at::TensorImpl*, at::Tensor> by_leaf;
  for (const auto& [leaf, gradient] : get_gradients(worker, context)) {
    by_leaf[leaf.unsafeGetTensorImpl()] = gradient;
  }
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : parameters) {
    const auto found = by_leaf.find(parameter.unsafeGetTensorImpl());
    gradients.push_back(found == by_leaf.end() ? at::Tensor() : found->second);
  }
  return gradients;
}

DebugInfo debug_info(Worker& worker) {
  return {worker.autograd().live_contexts(), worker.autograd().live_passes()};
}

Context::Context(Worker& worker) : worker_(worker) {
  const autograd::ContextPlace where = worker.next_context_place();
  id_ = worker.autograd().open(where);
  rpc::Place place;
  place.context = id_;
  place.step = where.step;
  place.ordinal = where.ordinal;
  place.path = std::make_shared<const rpc::CallPath>(
      rpc::CallPath{2 * static_cast<std::uint32_t>(worker.rank()) + 1});
  place.deadline = worker.places().current().deadline;
  place.observer = &worker.autograd();
  // Random numbers of a context depend on its place in the program, not on what ran before.
  worker.handlers().seed(worker.world().tasks.current(), place, 0);
  before_ = worker.places().replace(std::move(place));
  worker.open_contexts()[id_] = this;
  worker.phase("forward");
}

Context::~Context() {
  if (!owned_) return;
  worker_.open_contexts().erase(id_);
  // The task that ends it may not be the one that opened it.
  if (worker_.places().current().context == id_) {
    worker_.places().replace(std::move(before_));
    worker_.handlers().seed(worker_.world().tasks.current(), rpc::Place{},
                            static_cast<std::uint64_t>(id_));
  }
  worker_.autograd().close(id_);
}

void Context::backward(const at::Tensor& root, const BackwardOptions& options) {
  dist_autograd::backward(worker_, id_, {root}, options);
}
void Context::backward(const std::vector<at::Tensor>& roots, const BackwardOptions& options) {
  dist_autograd::backward(worker_, id_, roots, options);
}
std::vector<int> Context::called() const {
  const auto called = worker_.autograd().called(id_);
  return {called.begin(), called.end()};
}
GradientMap Context::gradients() { return get_gradients(worker_, id_); }
std::vector<at::Tensor> Context::gradients(const std::vector<at::Tensor>& parameters) {
  return get_gradients(worker_, id_, parameters);
}

}  // namespace rehearse::dist_autograd
