#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "runtime/autograd/autograd.hpp"
#include "runtime/rpc/place.hpp"
#include "runtime/worker/worker.hpp"

/// Gradients across workers, as in PyTorch's distributed autograd: open a context, call functions
/// on other workers, run backward, read the gradients of each worker's own leaves. `.grad` is never
/// touched. Bits equal those of single-process autograd, whatever the order of messages.
namespace rehearse::dist_autograd {

/// A leaf of the calling worker and its gradient.
struct LeafGradient {
  at::Tensor leaf;
  at::Tensor gradient;
};
/// In the canonical order of the leaves' first use.
using GradientMap = std::vector<LeafGradient>;

/// Computes the gradients of `roots` (on this worker, recorded in `context`) with respect to all
/// leaves that they reach, on all workers, and adds them to the context's. Waits until every
/// participant has its part, or none: after a failure all contexts are as before.
/// Throws Error: `bad_argument` (no roots, a root that requires no grad or is not scalar and has no
/// grad_output), `unknown_context`, `context_closed`, `peer_lost` with the worker's name,
/// `timed_out` with the workers not done, `pass_failed` or what a node threw, with worker and node.
void backward(Worker& worker, ContextId context, const std::vector<at::Tensor>& roots,
              const BackwardOptions& options = {});

/// The gradients that the context has collected on this worker. Waits for a pass that is not
/// decided yet. Throws Error{unknown_context, context_closed, timed_out}.
GradientMap get_gradients(Worker& worker, ContextId context);

/// The same, aligned with `parameters`; undefined for those that received none.
std::vector<at::Tensor> get_gradients(Worker& worker, ContextId context,
                                      const std::vector<at::Tensor>& parameters);

/// What this worker holds of distributed autograd now. Zero of both once all contexts are closed.
struct DebugInfo {
  std::size_t live_contexts = 0;
  std::size_t live_passes = 0;
};
DebugInfo debug_info(Worker& worker);

/// Opens a context for the calling task until it is destroyed; one per task. Calls that the task
/// makes carry it on, to any depth. Throws Error{bad_argument} if the task has one already.
class Context {
 public:
  explicit Context(Worker& worker);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  ContextId id() const { return id_; }
  void backward(const at::Tensor& root, const BackwardOptions& options = {});
  void backward(const std::vector<at::Tensor>& roots, const BackwardOptions& options = {});
  GradientMap gradients();
  /// Ranks that this worker has sent something to in this context, sorted.
  std::vector<int> called() const;
  std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& parameters);

 private:
  friend class rehearse::Worker;
  Context(Worker& worker, ContextId of_another) : worker_(worker), id_(of_another), owned_(false) {}

  Worker& worker_;
  ContextId id_ = 0;
  bool owned_ = true;
  rpc::Place before_;
};

}  // namespace rehearse::dist_autograd
