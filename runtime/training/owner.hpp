#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/training/owner_core.hpp"
#include "runtime/training/step_functions.hpp"
#include "runtime/worker/worker.hpp"

namespace rehearse::training {

/// A worker as the owner of parameters: serves the steps of all trainers. Brings `OwnerCore` calls,
/// waits and torch. Belongs to its worker.
class Owner : public std::enable_shared_from_this<Owner> {
 public:
  explicit Owner(Worker& worker);
  /// Of this worker; made when first asked for.
  static Owner& of(Worker& worker);

  Created create(const Algorithm& algorithm, const std::vector<RemoteRef<at::Tensor>>& parameters);
  /// Of the context's gradients, aligned with the optimizer's parameters; 0 for those without.
  std::vector<double> squared_norms(std::uint64_t optimizer, ContextId context);
  /// Waits for the lock. Throws what torch throws, or what keeps gradients from being read.
  PrepareReply prepare(const StepOrder& order);
  void settle(StepId step, StepVerdict verdict);
  /// For another owner: complete when this worker has seen the losses too.
  Future<StepVerdict> verdict(StepId step, const std::vector<WorkerId>& lost);

 private:
  struct Attempt {
    std::shared_ptr<LocalOptimizer> optimizer;
    ContextId context = 0;
    TaskId task;  ///< that prepares it
    bool granted = false;
    bool staged = false;
    bool dismissed = false;
    bool answered = false;  ///< the trainer has been told that it is prepared
  };

  void lose(WorkerId lost);
  void later(std::string what, std::function<void()> body);
  std::shared_ptr<LocalOptimizer> optimizer(std::uint64_t number);
  std::vector<at::Tensor> gradients(const LocalOptimizer& optimizer, ContextId context);
  void wait_for_lock(Attempt& attempt, StepId step);
  void stage(Attempt& attempt, const StepOrder& order);
  void end(StepId step, EventKind how);
  void ask(const AskVerdict& question);
  void on_answer(const AskVerdict& question, const Result<StepVerdict>& verdict);

  void perform(const OwnerActions& actions);
  void perform(const Grant& grant);
  void perform(const Confirm& confirm);
  void perform(const Dismiss& dismiss);
  void perform(const Apply& apply);
  void perform(const Wound& wound);
  void perform(const AskVerdict& question) { ask(question); }
  void perform(const TellVerdict& answer);

  Worker& worker_;
  StepFunctions functions_;
  OwnerCore core_;
  std::map<std::uint64_t, std::weak_ptr<LocalOptimizer>> optimizers_;
  std::uint64_t next_optimizer_ = 1;
  std::map<StepId, Attempt> attempts_;
  std::map<std::uint64_t, Promise<StepVerdict>> questions_;
  std::uint64_t next_question_ = 1;
};

}  // namespace rehearse::training
