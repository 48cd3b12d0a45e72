#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/training/attempts.hpp"
#include "runtime/training/owner_core.hpp"
#include "runtime/training/trainer_core.hpp"

/// Trainers and owners over channels that keep order and lose nothing but with a worker, and whose
/// next delivery the test chooses. A value: copy it to try another order.
namespace rehearse::training {

/// What a trainer does, one after another: the owners of each step.
using Script = std::vector<std::vector<WorkerId>>;

namespace wire {
struct Prepare {
  Ticket ticket;
  auto operator<=>(const Prepare&) const = default;
};
struct Prepared {
  StepId step;
  std::uint64_t newest_turn = 0;
  auto operator<=>(const Prepared&) const = default;
};
struct GivenUp {
  StepId step;
  auto operator<=>(const GivenUp&) const = default;
};
struct Failed {
  StepId step;
  auto operator<=>(const Failed&) const = default;
};
struct Decision {
  StepId step;
  StepVerdict verdict{};
  auto operator<=>(const Decision&) const = default;
};
struct Settled {
  StepId step;
  auto operator<=>(const Settled&) const = default;
};
struct PleaseGiveUp {
  StepId step;
  auto operator<=>(const PleaseGiveUp&) const = default;
};
struct Question {
  StepId step;
  std::vector<WorkerId> lost;
  auto operator<=>(const Question&) const = default;
};
struct Reply {
  StepId step;
  StepVerdict verdict{};
  std::vector<WorkerId> lost;
  auto operator<=>(const Reply&) const = default;
};
struct Gone {
  auto operator<=>(const Gone&) const = default;
};
using Any = std::variant<Prepare, Prepared, GivenUp, Failed, Decision, Settled, PleaseGiveUp,
                         Question, Reply, Gone>;
}  // namespace wire

class StepNetwork {
 public:
  /// What happens next.
  struct Choice {
    enum class Kind { deliver, stage, refuse, kill } kind{};
    WorkerId from = 0, to = 0;
    StepId step{};
    int dies_after = -1;  ///< who acts is killed after so many sends; -1: not
  };

  /// Worker i runs `scripts[i]`; every worker may be an owner. At most `kills` of
  /// `mortals` die, and at most `refusals` prepares fail.
  StepNetwork(std::vector<Script> scripts, int kills, std::set<WorkerId> mortals, int refusals);

  std::vector<Choice> choices() const;
  void take(const Choice& choice);

  /// What is wrong with what has happened so far; empty: nothing.
  std::string wrong() const;
  /// What is wrong with it as an end, where nothing can happen any more.
  std::string wrong_end() const;
  int attempts() const { return begun_; }
  /// The steps that an owner has in place, in that order: trainer and place in its script.
  const std::vector<std::pair<WorkerId, int>>& applied(WorkerId owner) const {
    return workers_[owner].applied;
  }

  auto operator<=>(const StepNetwork&) const = default;

 private:
  using Channel = std::pair<WorkerId, WorkerId>;
  struct Asked {
    WorkerId by = 0;
    StepId step;
    std::vector<WorkerId> lost;
    auto operator<=>(const Asked&) const = default;
  };
  struct Node {
    explicit Node(WorkerId self) : owner(self) {}
    bool alive = true;
    OwnerCore owner;
    std::set<StepId> staging, unanswered;
    std::vector<std::pair<WorkerId, int>> applied;
    std::vector<Asked> questions;
    std::optional<TrainerCore> trainer;
    Attempts attempts;
    std::uint64_t newest_turn = 0;
    std::vector<bool> results;  ///< of its steps that are over: in place?
    std::set<std::pair<WorkerId, StepId>> unsettled;
    std::set<WorkerId> lost;
    auto operator<=>(const Node&) const = default;
  };

  void send(WorkerId from, WorkerId to, wire::Any message);
  void deliver(WorkerId from, WorkerId to);
  void kill(WorkerId worker);
  void act(const Choice& choice);
  void next_step(WorkerId trainer);
  void begin(WorkerId trainer);
  void perform(WorkerId trainer, const TrainerActions& actions);
  void perform(WorkerId owner, const OwnerActions& actions);
  void put_in_place(WorkerId owner, StepId step);

  void on(WorkerId from, WorkerId to, const wire::Prepare& message);
  void on(WorkerId from, WorkerId to, const wire::Prepared& message);
  void on(WorkerId from, WorkerId to, const wire::GivenUp& message);
  void on(WorkerId from, WorkerId to, const wire::Failed& message);
  void on(WorkerId from, WorkerId to, const wire::Decision& message);
  void on(WorkerId from, WorkerId to, const wire::Settled& message);
  void on(WorkerId from, WorkerId to, const wire::PleaseGiveUp& message);
  void on(WorkerId from, WorkerId to, const wire::Question& message);
  void on(WorkerId from, WorkerId to, const wire::Reply& message);
  void on(WorkerId from, WorkerId to, const wire::Gone& message);

  struct Setting {
    std::vector<Script> scripts;
    std::set<WorkerId> mortals;
  };
  const Script& script(WorkerId trainer) const { return setting_->scripts[trainer]; }

  std::shared_ptr<const Setting> setting_;
  int kills_ = 0, refusals_ = 0, begun_ = 0;
  std::vector<Node> workers_;
  std::map<Channel, std::vector<wire::Any>> channels_;  ///< without empty ones
  std::vector<Channel> sent_;                           ///< by what is happening
  std::map<StepId, int> step_of_;  ///< an attempt's step: its place in its trainer's script
};

}  // namespace rehearse::training
