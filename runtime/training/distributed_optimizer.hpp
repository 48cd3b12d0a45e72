#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <vector>

#include "runtime/training/step_functions.hpp"
#include "runtime/worker/worker.hpp"

namespace rehearse {

/// One of torch's optimizers over parameters that live on several workers, their owners. Each owner
/// keeps the state of its parameters. Of several optimizers over one parameter each has a state of
/// its own.
///
/// A step is in place at all owners that live, or at none: owners first compute it on copies, then,
/// when all have, put it in place. Until then readers see the old values. Steps that meet at an
/// owner, of whichever trainers, go one after another; of two that would wait for each other, the
/// younger gives way and is tried again (wound-wait). Their order at an owner is that of its
/// `step_committed` events.
///
/// Memory: one copy of the optimizer's state as long as this lives, and during a step, at each
/// owner, one more copy of its parameters with a gradient and of their state.
///
/// Belongs to its worker's tasks.
class DistributedOptimizer {
 public:
  /// `parameters`: leaves that require gradients, on any workers. Waits for the owners. Throws
  /// Error: `bad_argument` with the option that is out of its range, for no parameters, or for one
  /// that is none (with its owner); `peer_lost`, `timed_out`.
  DistributedOptimizer(Worker& worker, OptimizerOptions options,
                       std::vector<RemoteRef<at::Tensor>> parameters);

  /// Applies the context's gradients. Parameters that have none in it stay as they are, with their
  /// state. Waits until the step is in place at all owners.
  ///
  /// Throws Error, the first that is known, with the worker where it happened: what an optimizer
  /// raised (`remote_exception`), `peer_lost`, `timed_out`, `unknown_context`, `context_closed`,
  /// `pass_failed` if a norm to clip is not finite. Then the step is in place nowhere. Once all
  /// owners are ready the step is decided: it returns, even if one of them is lost before it has
  /// put its part in place.
  void step(ContextId context);

  std::int64_t steps() const { return steps_; }  ///< that are in place
  /// Of the next step, by the schedule.
  double learning_rate() const { return training::learning_rate(options_, steps_); }
  /// The norm of all gradients of the latest step, before clipping; nothing unless they are
  /// clipped.
  std::optional<double> gradient_norm() const { return gradient_norm_; }

 private:
  struct Part {
    std::vector<std::size_t> places;  ///< of its parameters among all
    training::Created created;
  };

  std::map<training::WorkerId, std::uint64_t> optimizers() const;
  double clip(ContextId context);

  Worker& worker_;
  OptimizerOptions options_;
  training::StepFunctions functions_;
  std::size_t parameters_ = 0;
  std::map<training::WorkerId, Part> parts_;
  std::int64_t steps_ = 0;
  std::optional<double> gradient_norm_;
};

}  // namespace rehearse
