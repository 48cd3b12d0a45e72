#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "runtime/autograd/gradients.hpp"
#include "runtime/autograd/ids.hpp"
#include "runtime/rpc/crossing.hpp"
#include "runtime/world/event.hpp"
#include "runtime/world/world.hpp"

namespace rehearse::dist_autograd {

using rehearse::ContextId;

/// How a backward pass is run.
struct BackwardOptions {
  bool retain_graph = false;    ///< keep saved tensors, so that the graph can be run again
  bool create_graph = false;    ///< gradients have a history of their own, across workers too
  bool rerunnable = true;       ///< saved tensors are kept until the pass is decided; false: less
                                ///< memory, but a failed pass closes the context
  bool detect_anomaly = false;  ///< a node that gives NaN fails the pass, on any worker
  std::vector<at::Tensor> grad_outputs{};  ///< one per root, of its shape; empty: ones, for scalars
  std::vector<at::Tensor> inputs{};        ///< only these leaves (of this worker), if not empty
  Duration deadline{};                     ///< from now; zero: `Limits::backward`
};

}  // namespace rehearse::dist_autograd

namespace rehearse::autograd {

using dist_autograd::BackwardOptions;

/// Where a context stands in its creator's program.
struct ContextPlace {
  std::int64_t step = 0;
  std::uint32_t ordinal = 0;  ///< among the contexts of that step
};

/// One worker's distributed autograd: its contexts, what crosses in them, its part of every pass.
/// `CutAutograd` over messages, `UncutAutograd` in one torch graph.
class Autograd : public rpc::Crossing {
 public:
  /// Opens a context; the calling task's place is its root from now on. Throws Error{bad_argument}
  /// if the task has one already.
  virtual ContextId open(const ContextPlace& place) = 0;
  /// Never waits. REQUIRES: opened here.
  virtual void close(ContextId context) = 0;

  /// Waits until every participant has its part, or none. Throws Error.
  virtual void backward(ContextId context, const std::vector<at::Tensor>& roots,
                        const BackwardOptions& options) = 0;
  /// This worker's leaves with a gradient, by canonical order of first use. Waits for the verdict
  /// of a pass that is not decided. Throws Error{unknown_context, context_closed, timed_out}.
  virtual std::vector<GradientMap::Entry> gradients(ContextId context) = 0;

  /// Whether this worker has a share of the context.
  virtual bool knows(ContextId context) const = 0;
  virtual std::size_t live_contexts() const = 0;
  virtual std::size_t live_passes() const = 0;
  /// Whom this worker has sent something to in the context, sorted; not who had called it before.
  virtual std::vector<WorkerId> called(ContextId context) const = 0;
};

/// A task has one context at most. Throws Error{bad_argument} if there is one already at `here`.
void refuse_second_context(const rpc::Place& here, const WorkerSpec& self);
/// The id of a context that `self` opens.
ContextId context_of(const WorkerSpec& self, std::uint32_t counter);

/// Throws Error{bad_argument} with what is wrong with the roots of a pass, if anything.
void check_roots(const std::vector<at::Tensor>& roots, const BackwardOptions& options);

}  // namespace rehearse::autograd
