#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <variant>
#include <vector>

#include "runtime/training/step.hpp"

namespace rehearse::training {

/// The lock is this step's: stage it, then say `prepared` or `failed`.
struct Grant {
  StepId step;
  bool operator==(const Grant&) const = default;
};
/// It is prepared: its trainer may count on this owner.
struct Confirm {
  StepId step;
  bool operator==(const Confirm&) const = default;
};
/// The attempt is over here: drop what is staged; a prepare that was not answered has been given
/// up.
struct Dismiss {
  StepId step;
  bool operator==(const Dismiss&) const = default;
};
/// Put in place what is staged.
struct Apply {
  StepId step;
  bool operator==(const Apply&) const = default;
};
/// Ask the step's trainer to give this attempt up, if it has not decided: an older step waits.
struct Wound {
  StepId step;
  bool operator==(const Wound&) const = default;
};
/// Ask another owner how the step ended, after the loss of its trainer and perhaps of owners.
struct AskVerdict {
  WorkerId owner = 0;
  StepId step;
  std::vector<WorkerId> lost;
  bool operator==(const AskVerdict&) const = default;
};
/// The answer to a question of another owner.
struct TellVerdict {
  std::uint64_t question = 0;
  StepVerdict verdict{};
  bool operator==(const TellVerdict&) const = default;
};
using OwnerAction = std::variant<Grant, Confirm, Dismiss, Apply, Wound, AskVerdict, TellVerdict>;
using OwnerActions = std::vector<OwnerAction>;

/// The decisions of a worker that holds parameters: whose turn it is, what is staged, how a step
/// ended. Events in, actions out; no waiting, no torch. One lock for all parameters of the worker.
///
/// Wound-wait: a step that meets an older one waits; one that meets a younger one has it give up,
/// unless that one's trainer has decided already. So waiting never forms a circle.
///
/// REQUIRES: what a worker said before its loss is told before its loss.
class OwnerCore {
 public:
  explicit OwnerCore(WorkerId self) : self_(self) {}

  OwnerActions prepare(const Ticket& ticket);
  /// A step that was granted the lock is staged. REQUIRES: granted, and neither said before.
  OwnerActions prepared(StepId step);
  /// It cannot be staged; the owner tells the trainer why.
  OwnerActions failed(StepId step);
  /// The trainer's decision. An abort may overtake its prepare.
  OwnerActions decide(StepId step, StepVerdict verdict);
  OwnerActions lost(WorkerId worker);

  /// Another owner asks, naming who is lost. The answer waits until this worker has seen the same
  /// losses: from then on nothing about the step can be on its way to it.
  OwnerActions asked(std::uint64_t question, StepId step, std::vector<WorkerId> lost);
  /// `lost` is what the question named.
  OwnerActions answered(WorkerId by, StepId step, StepVerdict verdict,
                        const std::vector<WorkerId>& lost);

  std::uint64_t newest_turn() const { return newest_turn_; }
  std::uint64_t committed() const { return committed_; }  ///< steps so far
  /// Steps that wait, are being staged or wait for their verdict here.
  std::size_t live() const { return steps_.size(); }

  auto operator<=>(const OwnerCore&) const = default;

 private:
  enum class Stage : std::uint8_t { waiting, preparing, prepared, in_doubt };
  struct Step {
    Ticket ticket;
    Stage stage = Stage::waiting;
    bool given_up = false;     ///< preparing: wounded or aborted meanwhile; prepared: wound is told
    std::set<WorkerId> asked;  ///< in doubt: who has not answered
    auto operator<=>(const Step&) const = default;
  };
  struct Question {
    std::uint64_t number = 0;
    StepId step;
    std::vector<WorkerId> lost;
    auto operator<=>(const Question&) const = default;
  };

  Step* find(StepId step);
  void end(StepId step, StepVerdict verdict, OwnerActions& out);
  void wound_holder(OwnerActions& out);
  void grant_next(OwnerActions& out);
  void forget_settled(const Ticket& ticket);
  void trainer_lost(StepId step, OwnerActions& out);
  void ask_others(Step& step, OwnerActions& out);
  std::vector<WorkerId> lost_of(const Ticket& ticket) const;
  void answer_questions(OwnerActions& out);
  std::optional<StepVerdict> answer_to(const Question& question) const;

  WorkerId self_;
  std::map<StepId, Step> steps_;
  std::optional<StepId> holder_;
  std::map<StepId, StepVerdict> verdicts_;  ///< of attempts that some owner may still ask about
  std::set<WorkerId> lost_;
  std::vector<Question> questions_;
  std::uint64_t newest_turn_ = 0;
  std::uint64_t committed_ = 0;
};

}  // namespace rehearse::training
