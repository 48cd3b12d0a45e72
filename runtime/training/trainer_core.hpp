#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/training/step.hpp"

namespace rehearse::training {

struct SendPrepare {
  WorkerId owner = 0;
  Ticket ticket;
};
/// How the attempt ends; `owners` verdicts follow.
struct Decided {
  StepId step;
  StepVerdict verdict{};
  std::size_t owners = 0;
};
struct SendVerdict {
  WorkerId owner = 0;
  StepId step;
  StepVerdict verdict{};
};
/// An older step was in the way: begin again, with a new attempt.
struct Retry {};
/// The step is over: in place at all owners, or at none.
struct FinishStep {
  std::optional<Failure> failure;
};
using TrainerAction = std::variant<SendPrepare, Decided, SendVerdict, Retry, FinishStep>;
using TrainerActions = std::vector<TrainerAction>;

/// The decisions of a step's trainer: when all owners are prepared it commits; at the first failure
/// before that, it aborts everywhere; when an older step needs a lock, it gives up and tries again.
/// Events of earlier attempts change nothing. Events in, actions out.
class TrainerCore {
 public:
  enum class Stage : std::uint8_t { preparing, committing, retrying, over };

  TrainerCore(StepAge age, std::vector<WorkerId> owners) : age_(age), owners_(std::move(owners)) {}

  /// REQUIRES: not begun, or a Retry came out last.
  TrainerActions begin(StepId attempt, std::uint64_t settled_below);
  TrainerActions prepared(WorkerId owner, StepId attempt);
  /// The owner has given the attempt up: it was in the way of an older step.
  TrainerActions given_up(WorkerId owner, StepId attempt);
  /// An owner asks to give the attempt up. Too late once the step is decided.
  TrainerActions wounded(StepId attempt);
  /// The owner could not prepare, is lost, or did not answer in time.
  TrainerActions failed(WorkerId owner, StepId attempt, Failure failure);
  /// The owner has the verdict, or is lost.
  TrainerActions settled(WorkerId owner, StepId attempt);

  StepId attempt() const { return attempt_; }
  Stage stage() const { return stage_; }
  /// Owners that the present stage waits for.
  const std::set<WorkerId>& missing() const { return missing_; }

  auto operator<=>(const TrainerCore&) const = default;

 private:
  bool is_preparing(StepId attempt) const {
    return stage_ == Stage::preparing && attempt == attempt_;
  }
  void abort(TrainerActions& out);
  void send_verdict(StepVerdict verdict, TrainerActions& out) const;

  StepAge age_;
  std::vector<WorkerId> owners_;
  Stage stage_ = Stage::retrying;
  StepId attempt_;
  std::set<WorkerId> missing_;
  std::set<WorkerId> without_;  ///< owners that have ended this attempt by themselves
};

}  // namespace rehearse::training
