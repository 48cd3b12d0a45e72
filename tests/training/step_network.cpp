#include "tests/training/step_network.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rehearse::training {

StepNetwork::StepNetwork(std::vector<Script> scripts, int kills, std::set<WorkerId> mortals,
                         int refusals)
    : setting_(std::make_shared<const Setting>(Setting{std::move(scripts), std::move(mortals)})),
      kills_(kills),
      refusals_(refusals) {
  const std::size_t size = setting_->scripts.size();
  for (std::size_t i = 0; i < size; ++i) workers_.emplace_back(static_cast<WorkerId>(i));
  for (std::size_t i = 0; i < size; ++i) next_step(static_cast<WorkerId>(i));
}

std::vector<StepNetwork::Choice> StepNetwork::choices() const {
  std::vector<Choice> choices;
  const auto add = [&](const Choice& choice) {
    choices.push_back(choice);
    if (kills_ == 0 || !setting_->mortals.contains(choice.to)) return;
    constexpr int kSendsMost = 3;
    for (int sends = 0; sends < kSendsMost; ++sends) {
      choices.push_back(choice);
      choices.back().dies_after = sends;
    }
  };
  for (const auto& [channel, messages] : channels_)
    add({Choice::Kind::deliver, channel.first, channel.second, {}, -1});
  for (const Node& node : workers_) {
    const auto self = static_cast<WorkerId>(&node - workers_.data());
    for (const StepId step : node.staging) {
      add({Choice::Kind::stage, self, self, step, -1});
      if (refusals_ > 0) choices.push_back({Choice::Kind::refuse, self, self, step, -1});
    }
    if (kills_ > 0 && node.alive && setting_->mortals.contains(self))
      choices.push_back({Choice::Kind::kill, self, self, {}, -1});
  }
  return choices;
}

// A worker that is killed while it acts: what it has sent by then arrives, the rest vanishes.
void StepNetwork::take(const Choice& choice) {
  sent_.clear();
  act(choice);
  if (choice.dies_after >= 0) {
    for (; sent_.size() > static_cast<std::size_t>(choice.dies_after); sent_.pop_back()) {
      const auto channel = channels_.find(sent_.back());
      channel->second.pop_back();
      if (channel->second.empty()) channels_.erase(channel);
    }
    kill(choice.to);
  }
  sent_.clear();
}

void StepNetwork::act(const Choice& choice) {
  Node& node = workers_[choice.from];
  switch (choice.kind) {
    case Choice::Kind::deliver:
      return deliver(choice.from, choice.to);
    case Choice::Kind::stage:
      node.staging.erase(choice.step);
      return perform(choice.from, node.owner.prepared(choice.step));
    case Choice::Kind::refuse:
      --refusals_;
      node.staging.erase(choice.step);
      node.unanswered.erase(choice.step);
      send(choice.from, choice.step.trainer, wire::Failed{choice.step});
      return perform(choice.from, node.owner.failed(choice.step));
    case Choice::Kind::kill:
      return kill(choice.from);
  }
}

void StepNetwork::send(WorkerId from, WorkerId to, wire::Any message) {
  if (!workers_[from].alive || !workers_[to].alive) return;
  channels_[{from, to}].push_back(std::move(message));
  sent_.emplace_back(from, to);
}

void StepNetwork::deliver(WorkerId from, WorkerId to) {
  const auto channel = channels_.find({from, to});
  const wire::Any message = std::move(channel->second.front());
  channel->second.erase(channel->second.begin());
  if (channel->second.empty()) channels_.erase(channel);
  std::visit([&](const auto& what) { on(from, to, what); }, message);
}

void StepNetwork::kill(WorkerId worker) {
  --kills_;
  for (WorkerId other = 0; other < workers_.size(); ++other) {
    channels_.erase({other, worker});
    if (other != worker) send(worker, other, wire::Gone{});
  }
  Node& node = workers_[worker];
  node.alive = false;
  node.staging.clear();
}

// --- a trainer

void StepNetwork::next_step(WorkerId self) {
  Node& node = workers_[self];
  if (node.results.size() == script(self).size()) {
    node.trainer.reset();
    return;
  }
  const std::uint64_t turn = ++node.newest_turn;
  const auto context = static_cast<ContextId>(node.results.size());
  node.trainer.emplace(StepAge{turn, context, self, 0}, script(self)[node.results.size()]);
  begin(self);
}

void StepNetwork::begin(WorkerId self) {
  ++begun_;
  Node& node = workers_[self];
  const StepId step{self, node.attempts.begin()};
  step_of_[step] = static_cast<int>(node.results.size());
  perform(self, node.trainer->begin(step, node.attempts.settled_below()));
}

void StepNetwork::perform(WorkerId self, const TrainerActions& actions) {
  Node& node = workers_[self];
  for (const TrainerAction& action : actions) {
    if (const auto* prepare = std::get_if<SendPrepare>(&action)) {
      if (node.lost.contains(prepare->owner)) {
        perform(self, node.trainer->failed(prepare->owner, prepare->ticket.id,
                                           {Code::peer_lost, "lost", {}, 0}));
        return;
      }
      send(self, prepare->owner, wire::Prepare{prepare->ticket});
    } else if (const auto* decided = std::get_if<Decided>(&action)) {
      node.attempts.decided(decided->step.attempt, decided->owners);
    } else if (const auto* verdict = std::get_if<SendVerdict>(&action)) {
      node.unsettled.emplace(verdict->owner, verdict->step);
      if (node.lost.contains(verdict->owner)) {
        on(verdict->owner, self, wire::Settled{verdict->step});
      } else {
        send(self, verdict->owner, wire::Decision{verdict->step, verdict->verdict});
      }
    } else if (std::holds_alternative<Retry>(action)) {
      begin(self);
    } else {
      node.results.push_back(!std::get<FinishStep>(action).failure);
      next_step(self);
    }
  }
}

void StepNetwork::on(WorkerId from, WorkerId to, const wire::Prepared& message) {
  Node& node = workers_[to];
  node.newest_turn = std::max(node.newest_turn, message.newest_turn);
  if (node.trainer) perform(to, node.trainer->prepared(from, message.step));
}
void StepNetwork::on(WorkerId from, WorkerId to, const wire::GivenUp& message) {
  Node& node = workers_[to];
  if (node.trainer) perform(to, node.trainer->given_up(from, message.step));
}
void StepNetwork::on(WorkerId from, WorkerId to, const wire::Failed& message) {
  Node& node = workers_[to];
  if (node.trainer)
    perform(to, node.trainer->failed(from, message.step, {Code::remote_exception, "no", {}, 0}));
}
void StepNetwork::on(WorkerId from, WorkerId to, const wire::Settled& message) {
  Node& node = workers_[to];
  if (node.unsettled.erase({from, message.step}) == 0) return;
  node.attempts.settled(message.step.attempt);
  if (node.trainer) perform(to, node.trainer->settled(from, message.step));
}
void StepNetwork::on(WorkerId, WorkerId to, const wire::PleaseGiveUp& message) {
  Node& node = workers_[to];
  if (node.trainer) perform(to, node.trainer->wounded(message.step));
}

// --- an owner

void StepNetwork::perform(WorkerId self, const OwnerActions& actions) {
  Node& node = workers_[self];
  for (const OwnerAction& action : actions) {
    if (const auto* grant = std::get_if<Grant>(&action)) {
      node.staging.insert(grant->step);
    } else if (const auto* confirm = std::get_if<Confirm>(&action)) {
      node.unanswered.erase(confirm->step);
      send(self, confirm->step.trainer, wire::Prepared{confirm->step, node.owner.newest_turn()});
    } else if (const auto* dismiss = std::get_if<Dismiss>(&action)) {
      if (node.unanswered.erase(dismiss->step) > 0)
        send(self, dismiss->step.trainer, wire::GivenUp{dismiss->step});
    } else if (const auto* apply = std::get_if<Apply>(&action)) {
      put_in_place(self, apply->step);
    } else if (const auto* wound = std::get_if<Wound>(&action)) {
      send(self, wound->step.trainer, wire::PleaseGiveUp{wound->step});
    } else if (const auto* ask = std::get_if<AskVerdict>(&action)) {
      send(self, ask->owner, wire::Question{ask->step, ask->lost});
    } else {
      const auto& tell = std::get<TellVerdict>(action);
      const Asked& asked = node.questions[tell.question];
      send(self, asked.by, wire::Reply{asked.step, tell.verdict, asked.lost});
    }
  }
}

void StepNetwork::put_in_place(WorkerId owner, StepId step) {
  workers_[owner].applied.emplace_back(step.trainer, step_of_.at(step));
}

void StepNetwork::on(WorkerId, WorkerId to, const wire::Prepare& message) {
  workers_[to].unanswered.insert(message.ticket.id);
  perform(to, workers_[to].owner.prepare(message.ticket));
}
void StepNetwork::on(WorkerId from, WorkerId to, const wire::Decision& message) {
  perform(to, workers_[to].owner.decide(message.step, message.verdict));
  send(to, from, wire::Settled{message.step});
}
void StepNetwork::on(WorkerId from, WorkerId to, const wire::Question& message) {
  Node& node = workers_[to];
  node.questions.push_back({from, message.step, message.lost});
  perform(to, node.owner.asked(node.questions.size() - 1, message.step, message.lost));
}
void StepNetwork::on(WorkerId from, WorkerId to, const wire::Reply& message) {
  perform(to, workers_[to].owner.answered(from, message.step, message.verdict, message.lost));
}

// What calls to it fail with comes before what its loss means for an owner.
void StepNetwork::on(WorkerId from, WorkerId to, const wire::Gone&) {
  Node& node = workers_[to];
  node.lost.insert(from);
  if (node.trainer && std::ranges::count(script(to)[node.results.size()], from) > 0) {
    const StepId attempt = node.trainer->attempt();
    perform(to, node.trainer->failed(from, attempt, {Code::peer_lost, "lost", {}, 0}));
  }
  const auto unsettled = node.unsettled;
  for (const auto& [owner, step] : unsettled) {
    if (owner == from) on(from, to, wire::Settled{step});
  }
  perform(to, workers_[to].owner.lost(from));
}

// --- what must hold

std::string StepNetwork::wrong() const {
  std::map<std::pair<WorkerId, int>, std::set<std::pair<WorkerId, int>>> before;
  for (const Node& node : workers_) {
    for (std::size_t i = 0; i < node.applied.size(); ++i) {
      if (std::ranges::count(node.applied, node.applied[i]) > 1) return "a step is in place twice";
      for (std::size_t j = 0; j < i; ++j) before[node.applied[j]].insert(node.applied[i]);
    }
  }
  for (const auto& [first, later] : before) {
    for (const auto& second : later) {
      if (before[second].contains(first)) return "two owners have two steps in different order";
    }
  }
  return {};
}

std::string StepNetwork::wrong_end() const {
  for (WorkerId trainer = 0; trainer < workers_.size(); ++trainer) {
    const Node& node = workers_[trainer];
    if (node.alive && node.results.size() != script(trainer).size())
      return fmt::format("step {} of trainer {} never ends", node.results.size(), trainer);
    for (std::size_t step = 0; step < script(trainer).size(); ++step) {
      int applied = 0, owners = 0;
      for (const WorkerId owner : script(trainer)[step]) {
        if (!workers_[owner].alive) continue;
        ++owners;
        applied += std::ranges::count(workers_[owner].applied,
                                      std::pair(trainer, static_cast<int>(step))) > 0;
      }
      const std::string name = fmt::format("step {} of trainer {}", step, trainer);
      if (applied != 0 && applied != owners)
        return fmt::format("{} is in place at {} of {} owners", name, applied, owners);
      if (owners == 0 || step >= node.results.size()) continue;
      if (node.results[step] != (applied > 0))
        return fmt::format("{} {} but is {}in place", name,
                           node.results[step] ? "returned" : "failed", applied ? "" : "not ");
    }
  }
  for (const Node& node : workers_) {
    if (node.alive && node.owner.live() > 0) return "an owner still holds a step";
  }
  return {};
}

}  // namespace rehearse::training
