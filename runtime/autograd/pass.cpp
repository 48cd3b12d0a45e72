#include "runtime/autograd/pass.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "runtime/autograd/report_tree.hpp"
#include "runtime/base/check.hpp"

namespace rehearse::autograd {

PassCore::PassCore(ContextId context, WorkerId self, const PassBounds& bounds)
    : context_(context), self_(self), bounds_(bounds) {}

Actions PassCore::begin(PassId id, const std::map<WorkerId, std::vector<PairId>>& live,
                        const PassOptions& options, Time now, Time deadline) {
  Actions out;
  if (closed_) return out;
  REHEARSE_CHECK(granted_ && granted_->pass == id && announced_, "a pass begins without its turn");
  REHEARSE_CHECK(passes_.empty(), "a pass begins while another is open here");
  asked_.erase(id);
  Pass pass;
  pass.id = id;
  pass.options = options;
  pass.deadline = deadline;
  for (const auto& [worker, sends] : live) {
    if (worker == self_) {
      pass.sends = sends;
    } else if (!sends.empty()) {
      pass.participants.push_back(worker);
    }
  }
  for (const WorkerId worker : pass.participants) {
    if (!lost_.contains(worker)) continue;
    out.push_back(Finished{id, lost_in_backward(worker)});
    end_turn(id, Verdict::none, out);
    return out;
  }
  pass.waiting_for = {pass.participants.begin(), pass.participants.end()};
  if (pass.participants.size() > bounds_.report_tree_above)
    pass.report_arity = bounds_.report_arity;
  send_starts(pass, live, now, out);
  run(passes_.emplace(id, std::move(pass)).first->second, out);
  return out;
}

void PassCore::send_starts(const Pass& pass, const std::map<WorkerId, std::vector<PairId>>& live,
                           Time now, Actions& out) const {
  Start start{.pass = pass.id,
              .participants = pass.participants,
              .sends = {},
              .options = pass.options,
              .remaining = Duration::max(),
              .report_arity = pass.report_arity,
              .previous = granted_->previous};
  if (pass.deadline != kNever) start.remaining = std::max(pass.deadline - now, Duration{});
  for (const WorkerId worker : pass.participants) {
    start.sends = live.at(worker);
    send(worker, start, out);
  }
}

Actions PassCore::receive(WorkerId from, const PassMessage& message, Time now) {
  Actions out;
  if (closed_) {
    ++statistics_.late;
    if (auto answer = answer_for_closed(from, message)) out.push_back(std::move(*answer));
    return out;
  }
  std::visit(
      [&](const auto& each) {
        using Message = std::decay_t<decltype(each)>;
        bool fenced = lost_.contains(from);
        if constexpr (requires { each.pass; } && !std::is_same_v<Message, VerdictAsk> &&
                      !std::is_same_v<Message, VerdictAnswer>) {
          fenced = fenced || lost_.contains(each.pass.initiator);
        }
        if (context_of(message) != context_) {
          ++statistics_.stray;
        } else if (fenced) {
          ++statistics_.fenced;
        } else if constexpr (std::is_same_v<Message, Start>) {
          on(from, each, now, out);
        } else {
          on(from, each, out);
        }
      },
      message);
  return out;
}

void PassCore::on(WorkerId from, const Start& start, Time now, Actions& out) {
  note_previous(start.previous, out);
  if (closed_) return;
  const bool ours = std::binary_search(start.participants.begin(), start.participants.end(), self_);
  if (from != start.pass.initiator || !ours) {
    ++statistics_.stray;
  } else if (find(start.pass) || verdicts_.over(start.pass)) {
    ++statistics_.late;
  } else if (granted_) {
    // It had its turn before this worker, so it is over already: its ABORT, or its initiator's
    // loss, is on the way.
    ++statistics_.late;
    refuse(start.pass, Verdict::none);
  } else {
    passes_.emplace(start.pass, participate(start, now));
    for (const auto& [worker, why] : lost_) lose(start.pass, worker, out);
    start_next(out);
  }
}

PassCore::Pass PassCore::participate(const Start& start, Time now) {
  Pass pass;
  pass.id = start.pass;
  pass.order = next_order_++;
  pass.participants = start.participants;
  pass.sends = start.sends;
  pass.options = start.options;
  pass.deadline = after(now, start.remaining);
  pass.report_arity = start.report_arity;
  pass.waiting_for =
      ReportTree(start.pass.initiator, start.participants, start.report_arity).below(self_);
  return pass;
}

// Passes commit in the order of their turns: a new one waits until older ones are settled here.
// They are decided, or their initiator is lost; only the news is on its way. So this never waits
// for itself.
void PassCore::start_next(Actions& out) {
  Pass* next = nullptr;
  for (auto& [id, pass] : passes_) {
    if (pass.stage != Stage::held) return;
    if (!next || pass.order < next->order) next = &pass;
  }
  if (next) run(*next, out);
}

void PassCore::run(Pass& pass, Actions& out) {
  pass.stage = Stage::running;
  out.push_back(Plan{pass.id, pass.sends, pass.options, mine(pass.id)});
  const auto at = early_.find(pass.id);
  if (at == early_.end()) return;
  const Early early = std::move(at->second);
  early_.erase(at);
  for (const Stashed& stashed : early.gradients) feed(pass, stashed, out);
  add_reports(pass, early.done);
}

Actions PassCore::receive_gradients(WorkerId from, PassId id, PairId pair, GradHandle gradients) {
  Actions out;
  Pass* pass = find(id);
  if (lost_.contains(from) || lost_.contains(id.initiator)) {
    ++statistics_.fenced;
  } else if (pass && pass->stage != Stage::held) {
    feed(*pass, {pair, std::move(gradients)}, out);
  } else if (closed_ || mine(id) || (!pass && verdicts_.over(id))) {
    ++statistics_.late;
  } else {
    early_[id].gradients.push_back({pair, std::move(gradients)});
  }
  return out;
}

void PassCore::feed(Pass& pass, Stashed gradients, Actions& out) {
  if (!std::binary_search(pass.sends.begin(), pass.sends.end(), gradients.pair)) {
    ++statistics_.unknown_pairs;
  } else if (!pass.fed.insert(gradients.pair).second) {
    ++statistics_.duplicates;
  } else {
    out.push_back(Feed{pass.id, gradients.pair, std::move(gradients.gradients)});
  }
}

Actions PassCore::executed(PassId id) {
  Actions out;
  Pass* pass = find(id);
  if (!pass || pass->stage != Stage::running) return out;
  pass->stage = Stage::executed;
  report_if_done(*pass, out);
  return out;
}

void PassCore::report_if_done(Pass& pass, Actions& out) {
  if (pass.stage != Stage::executed || !pass.waiting_for.empty()) return;
  if (mine(pass.id)) return commit(pass.id, out);
  pass.stage = Stage::reported;
  pass.done.push_back(self_);
  std::sort(pass.done.begin(), pass.done.end());
  const ReportTree tree(pass.id.initiator, pass.participants, pass.report_arity);
  send(tree.parent(self_), Done{pass.id, pass.done}, out);
}

void PassCore::add_reports(Pass& pass, const std::vector<WorkerId>& workers) {
  for (const WorkerId worker : workers) {
    if (pass.waiting_for.erase(worker) != 0) pass.done.push_back(worker);
  }
}

void PassCore::on(WorkerId, const Done& done, Actions& out) {
  Pass* pass = find(done.pass);
  if (pass && pass->stage != Stage::held) {
    add_reports(*pass, done.workers);
    report_if_done(*pass, out);
  } else if (mine(done.pass) || (!pass && verdicts_.over(done.pass))) {
    ++statistics_.late;
  } else {
    // The report of a worker below in the tree may overtake the initiator's START.
    std::vector<WorkerId>& early = early_[done.pass].done;
    early.insert(early.end(), done.workers.begin(), done.workers.end());
  }
}

void PassCore::on(WorkerId, const Fail& message, Actions& out) {
  if (!mine(message.pass) || !find(message.pass)) {
    ++statistics_.late;
    return;
  }
  fail(message.pass, failure_of(message.code, message.message, message.worker), out);
}

void PassCore::on(WorkerId from, const Commit& message, Actions& out) {
  const Pass* pass = find(message.pass);
  if (!pass) {
    ++statistics_.late;
  } else if (from != message.pass.initiator || pass->stage != Stage::reported) {
    ++statistics_.stray;
  } else {
    settle(message.pass, Verdict::committed, out);
  }
}

void PassCore::on(WorkerId from, const Abort& message, Actions& out) {
  if (from != message.pass.initiator) {
    ++statistics_.stray;
  } else if (find(message.pass)) {
    settle(message.pass, Verdict::aborted, out);
  } else if (!verdicts_.over(message.pass)) {
    refuse(message.pass, Verdict::aborted);
  }
}

void PassCore::send(WorkerId to, PassMessage message, Actions& out) const {
  if (!lost_.contains(to)) out.push_back(Send{to, std::move(message)});
}

PassCore::Pass* PassCore::find(const PassId& pass) {
  const auto at = passes_.find(pass);
  return at == passes_.end() ? nullptr : &at->second;
}

Time PassCore::next_deadline() const {
  Time next = kNever;
  for (const auto& [id, pass] : passes_) {
    if (pass.stage < Stage::reported) next = std::min(next, pass.deadline);
  }
  return next;
}

bool PassCore::undecided() const {
  return std::any_of(passes_.begin(), passes_.end(),
                     [](const auto& entry) { return entry.second.stage >= Stage::reported; });
}

std::size_t PassCore::stashed() const {
  std::size_t count = 0;
  for (const auto& [id, early] : early_) count += early.gradients.size() + early.done.size();
  return count;
}

}  // namespace rehearse::autograd
