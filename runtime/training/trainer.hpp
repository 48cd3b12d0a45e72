#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/training/attempts.hpp"
#include "runtime/training/step_functions.hpp"
#include "runtime/training/trainer_core.hpp"
#include "runtime/worker/worker.hpp"

namespace rehearse::training {

class StepRun;

/// A worker as the trainer of steps: those under way, over all its optimizers. Belongs to its
/// worker.
class Trainer : public std::enable_shared_from_this<Trainer> {
 public:
  explicit Trainer(Worker& worker) : worker_(worker) {}
  /// Of this worker; made when first asked for.
  static Trainer& of(Worker& worker);

  /// What an owner is told of a step: the order without its ticket, and the owner's optimizer.
  using Optimizers = std::map<WorkerId, std::uint64_t>;
  /// Waits until the step is in place at all owners, or at none: then throws the first failure.
  void step(const Optimizers& optimizers, StepOrder order, const CallOptions& options);

  /// An owner asks to give an attempt up.
  void give_up(StepId step);

 private:
  friend class StepRun;

  Time deadline_of(const CallOptions& options) const;

  Worker& worker_;
  StepFunctions functions_;
  Attempts attempts_;
  std::uint64_t newest_turn_ = 0;
  std::map<std::uint64_t, StepRun*> runs_;  ///< by number
  std::uint64_t next_run_ = 1;
};

}  // namespace rehearse::training
