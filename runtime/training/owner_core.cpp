#include "runtime/training/owner_core.hpp"

#include <algorithm>

#include "runtime/base/check.hpp"

// Why all surviving owners end a step alike. Only its trainer decides to commit, after every owner
// has confirmed; whoever knows that it did heard it from the trainer or from an owner who knew. An
// owner in doubt aborts only when all owners that live have answered that they do not know, each
// after it had seen the loss of the same set of workers, from which nothing can be in the air any
// more. After that nobody can come to know.

namespace rehearse::training {

OwnerCore::Step* OwnerCore::find(StepId step) {
  const auto found = steps_.find(step);
  return found == steps_.end() ? nullptr : &found->second;
}

OwnerActions OwnerCore::prepare(const Ticket& ticket) {
  OwnerActions out;
  newest_turn_ = std::max(newest_turn_, ticket.age.turn);
  forget_settled(ticket);
  if (lost_.contains(ticket.id.trainer) || verdicts_.contains(ticket.id)) {
    out.push_back(Dismiss{ticket.id});
    return out;
  }
  const bool fresh = steps_.try_emplace(ticket.id, Step{ticket, Stage::waiting, false, {}}).second;
  REHEARSE_CHECK(fresh, "an attempt at a step was announced twice");
  wound_holder(out);
  grant_next(out);
  return out;
}

OwnerActions OwnerCore::prepared(StepId id) {
  OwnerActions out;
  Step* step = find(id);
  REHEARSE_CHECK(step && step->stage == Stage::preparing, "a step was staged without the lock");
  if (step->given_up) {
    end(id, StepVerdict::aborted, out);
  } else {
    step->stage = Stage::prepared;
    out.push_back(Confirm{id});
  }
  return out;
}

OwnerActions OwnerCore::failed(StepId id) {
  OwnerActions out;
  Step* step = find(id);
  REHEARSE_CHECK(step && step->stage == Stage::preparing, "a step failed without the lock");
  end(id, StepVerdict::aborted, out);
  std::erase(out, OwnerAction(Dismiss{id}));  // its prepare is answered with the failure
  return out;
}

OwnerActions OwnerCore::decide(StepId id, StepVerdict verdict) {
  OwnerActions out;
  Step* step = find(id);
  if (!step) {
    if (verdict == StepVerdict::aborted) verdicts_.try_emplace(id, verdict);
  } else if (step->stage == Stage::preparing) {
    REHEARSE_CHECK(verdict == StepVerdict::aborted, "a step was committed before it was prepared");
    step->given_up = true;
  } else {
    end(id, verdict, out);
  }
  return out;
}

void OwnerCore::end(StepId id, StepVerdict verdict, OwnerActions& out) {
  const bool committed = verdict == StepVerdict::committed;
  REHEARSE_CHECK(!committed || find(id)->stage >= Stage::prepared,
                 "a step was committed before it was prepared");
  verdicts_[id] = verdict;
  steps_.erase(id);
  committed_ += committed;
  if (committed) {
    out.push_back(Apply{id});
  } else {
    out.push_back(Dismiss{id});
  }
  if (holder_ == id) holder_.reset();
  grant_next(out);
  answer_questions(out);
}

// --- the lock

void OwnerCore::wound_holder(OwnerActions& out) {
  if (!holder_) return;
  Step& holder = steps_.at(*holder_);
  const bool older_waits = std::any_of(steps_.begin(), steps_.end(), [&](const auto& other) {
    return other.second.ticket.age < holder.ticket.age;
  });
  if (!older_waits || holder.given_up || holder.stage == Stage::in_doubt) return;
  holder.given_up = true;
  if (holder.stage == Stage::prepared) out.push_back(Wound{*holder_});
}

void OwnerCore::grant_next(OwnerActions& out) {
  if (holder_ || steps_.empty()) return;
  const auto oldest =
      std::min_element(steps_.begin(), steps_.end(), [](const auto& one, const auto& other) {
        return one.second.ticket.age < other.second.ticket.age;
      });
  holder_ = oldest->first;
  oldest->second.stage = Stage::preparing;
  out.push_back(Grant{oldest->first});
}

void OwnerCore::forget_settled(const Ticket& ticket) {
  const WorkerId trainer = ticket.id.trainer;
  verdicts_.erase(verdicts_.lower_bound({trainer, 0}),
                  verdicts_.lower_bound({trainer, ticket.settled_below}));
}

// --- losses

OwnerActions OwnerCore::lost(WorkerId worker) {
  OwnerActions out;
  if (!lost_.insert(worker).second) return out;
  std::vector<StepId> orphans, doubtful;
  for (const auto& [id, step] : steps_) {
    if (id.trainer == worker) orphans.push_back(id);
    if (step.stage == Stage::in_doubt && std::ranges::count(step.ticket.owners, worker) > 0)
      doubtful.push_back(id);
  }
  for (const StepId id : orphans) trainer_lost(id, out);
  for (const StepId id : doubtful) ask_others(steps_.at(id), out);
  answer_questions(out);
  return out;
}

void OwnerCore::trainer_lost(StepId id, OwnerActions& out) {
  Step* step = find(id);
  if (!step) return;
  if (step->stage == Stage::waiting) return end(id, StepVerdict::aborted, out);
  if (step->stage == Stage::prepared) return ask_others(*step, out);
  step->given_up = true;
}

void OwnerCore::ask_others(Step& step, OwnerActions& out) {
  step.stage = Stage::in_doubt;
  step.asked = {step.ticket.owners.begin(), step.ticket.owners.end()};
  step.asked.erase(self_);
  for (const WorkerId worker : lost_) step.asked.erase(worker);
  const std::vector<WorkerId> lost = lost_of(step.ticket);
  for (const WorkerId owner : step.asked) out.push_back(AskVerdict{owner, step.ticket.id, lost});
  if (step.asked.empty()) end(step.ticket.id, StepVerdict::aborted, out);
}

std::vector<WorkerId> OwnerCore::lost_of(const Ticket& ticket) const {
  std::vector<WorkerId> lost;
  for (const WorkerId worker : lost_) {
    if (worker == ticket.id.trainer || std::ranges::count(ticket.owners, worker) > 0)
      lost.push_back(worker);
  }
  return lost;
}

OwnerActions OwnerCore::answered(WorkerId by, StepId id, StepVerdict verdict,
                                 const std::vector<WorkerId>& lost) {
  OwnerActions out;
  Step* step = find(id);
  if (!step || step->stage != Stage::in_doubt) return out;
  if (verdict != StepVerdict::unknown) {
    end(id, verdict, out);
  } else if (lost == lost_of(step->ticket)) {
    step->asked.erase(by);
    if (step->asked.empty()) end(id, StepVerdict::aborted, out);
  }
  return out;
}

OwnerActions OwnerCore::asked(std::uint64_t question, StepId step, std::vector<WorkerId> lost) {
  OwnerActions out;
  questions_.push_back({question, step, std::move(lost)});
  answer_questions(out);
  return out;
}

void OwnerCore::answer_questions(OwnerActions& out) {
  std::erase_if(questions_, [&](const Question& question) {
    const std::optional<StepVerdict> verdict = answer_to(question);
    if (verdict) out.push_back(TellVerdict{question.number, *verdict});
    return verdict.has_value();
  });
}

std::optional<StepVerdict> OwnerCore::answer_to(const Question& question) const {
  if (const auto known = verdicts_.find(question.step); known != verdicts_.end())
    return known->second;
  for (const WorkerId worker : question.lost) {
    if (!lost_.contains(worker)) return std::nullopt;
  }
  // Its trainer is lost: what has not been confirmed here never will be.
  const auto live = steps_.find(question.step);
  const bool confirmed = live != steps_.end() && live->second.stage >= Stage::prepared;
  return confirmed ? StepVerdict::unknown : StepVerdict::aborted;
}

}  // namespace rehearse::training
