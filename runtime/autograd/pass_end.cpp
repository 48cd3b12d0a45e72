#include <algorithm>
#include <utility>

#include "runtime/autograd/pass.hpp"

namespace rehearse::autograd {
namespace {

bool contains(const std::vector<WorkerId>& sorted, WorkerId worker) {
  return std::binary_search(sorted.begin(), sorted.end(), worker);
}

}  // namespace

// All have reported, so all can commit and none can fail any more: this is the decision.
void PassCore::commit(PassId id, Actions& out) {
  const std::vector<WorkerId> participants = find(id)->participants;
  settle(id, Verdict::committed, out);
  tell(participants, Commit{id}, out);
  out.push_back(Finished{id, {}});
  end_turn(id, Verdict::committed, out);
}

void PassCore::fail(PassId id, const Failure& failure, Actions& out) {
  if (!mine(id)) {
    send(id.initiator, Fail{id, failure.code, failure.message, failure.worker}, out);
    return settle(id, Verdict::aborted, out);
  }
  const std::vector<WorkerId> participants = find(id)->participants;
  const bool rerunnable = find(id)->options.rerunnable;
  settle(id, Verdict::aborted, out);
  tell(participants, Abort{id}, out);
  out.push_back(Finished{id, failure});
  end_turn(id, Verdict::aborted, out);
  if (!rerunnable) give_up(spoilt(), out);
}

/// The pass is over here.
void PassCore::settle(PassId id, Verdict verdict, Actions& out) {
  const Pass pass = std::move(*find(id));
  passes_.erase(id);
  refuse(id, verdict);
  if (verdict == Verdict::committed) {
    out.push_back(CommitPass{id});
  } else if (pass.stage != Stage::held) {
    out.push_back(DropPass{id});
  }
  answer_questions(out);
  const bool ran = pass.stage != Stage::held;
  if (verdict == Verdict::aborted && !pass.options.rerunnable && ran && !mine(id)) {
    // The initiator tells the creator, after the cause; without it everybody does.
    return lost_.contains(id.initiator) ? give_up(spoilt(), out) : shut(spoilt(), out);
  }
  end_turn_of_lost(out);
  start_next(out);
  grant_here(out);
}

/// Nothing of the pass is listened to any more.
void PassCore::refuse(const PassId& id, Verdict verdict) {
  verdicts_.close(id);
  verdicts_.record(id, verdict);
  const PassId first{id.context, id.initiator, 0};
  early_.erase(early_.lower_bound(first), early_.upper_bound(id));
}

void PassCore::tell(const std::vector<WorkerId>& workers, const PassMessage& message,
                    Actions& out) const {
  for (const WorkerId worker : workers) send(worker, message, out);
}

Actions PassCore::threw(PassId id, std::string_view node, Failure failure) {
  Actions out;
  const Pass* pass = find(id);
  if (!pass || pass->stage != Stage::running) return out;
  if (failure.worker.empty()) failure.worker = worker_name(self_);
  failure.context = context_;
  if (!node.empty()) failure.message = "in " + std::string(node) + ": " + failure.message;
  fail(id, failure, out);
  return out;
}

Actions PassCore::peer_lost(WorkerId peer, const std::string& why) {
  Actions out;
  if (!lost_.emplace(peer, why).second || closed_) return out;
  if (peer == creator_of(context_)) {
    shut(loss_of(peer, "the creator of the context was lost"), out);
    return out;
  }
  turns_.forget(peer);
  std::erase_if(early_, [peer](const auto& entry) { return entry.first.initiator == peer; });
  std::erase_if(questions_, [peer](const Question& question) { return question.from == peer; });
  std::vector<PassId> open;
  for (const auto& [id, pass] : passes_) open.push_back(id);
  for (const PassId& id : open) lose(id, peer, out);
  if (closed_) return out;
  end_turn_of_lost(out);
  answer_questions(out);
  return out;
}

/// `peer` is lost: what that means for one pass.
void PassCore::lose(PassId id, WorkerId peer, Actions& out) {
  Pass* pass = find(id);
  if (!pass) return;
  const bool may_abort = pass->stage < Stage::reported;
  if (peer == id.initiator) {
    if (may_abort) return settle(id, Verdict::aborted, out);
    ask_verdict(*pass, out);
  } else if (contains(pass->participants, peer)) {
    if (may_abort) {
      fail(id, lost_in_backward(peer), out);
    } else if (pass->stage == Stage::in_doubt) {
      ask_verdict(*pass, out);
    }
  }
}

Actions PassCore::expire(Time now) {
  Actions out;
  std::vector<PassId> late;
  for (const auto& [id, pass] : passes_) {
    if (pass.stage < Stage::reported && pass.deadline <= now) late.push_back(id);
  }
  for (const PassId& id : late) {
    if (const Pass* pass = find(id)) fail(id, timed_out(*pass), out);
  }
  return out;
}

Failure PassCore::timed_out(const Pass& pass) const {
  std::set<WorkerId> left = pass.waiting_for;
  if (pass.stage < Stage::executed) left.insert(self_);
  std::string names;
  for (const WorkerId worker : left) names += (names.empty() ? "" : ", ") + worker_name(worker);
  return failure_of(Code::timed_out, "the deadline of backward passed; not done: " + names,
                    left.size() == 1 ? worker_name(*left.begin()) : std::string());
}

Actions PassCore::close() {
  Actions out;
  if (closed_) return out;
  shut(failure_of(Code::context_closed, "the context was closed"), out);
  return out;
}

void PassCore::on(WorkerId from, const Close& message, Actions& out) {
  const Code code = message.code == Code::ok ? Code::context_closed : message.code;
  shut(failure_of(code, message.message.empty() ? "the context was closed" : message.message,
                  worker_name(from)),
       out);
}

/// This worker found out that the context cannot go on; its creator tells the others.
void PassCore::give_up(const Failure& failure, Actions& out) {
  if (closed_) return;
  if (!creator()) {
    send(creator_of(context_), Close{context_, failure.code, failure.message, 0}, out);
  }
  shut(failure, out);
}

void PassCore::shut(const Failure& failure, Actions& out) {
  closed_ = failure;
  for (const auto& [id, pass] : passes_) {
    if (mine(id)) {
      tell(pass.participants, Abort{id}, out);
    } else if (pass.stage < Stage::reported) {
      send(id.initiator, Fail{id, failure.code, failure.message, failure.worker}, out);
    }
    if (pass.stage != Stage::held) out.push_back(DropPass{id});
    if (mine(id)) out.push_back(Finished{id, failure});
  }
  for (const PassId& id : asked_) out.push_back(Finished{id, failure});
  const Close close{context_, failure.code, failure.message, 0};
  for (const PassId& id : turns_.all()) {
    if (!mine(id)) send(id.initiator, close, out);
  }
  passes_.clear();
  early_.clear();
  asked_.clear();
  granted_.reset();
  answer_questions(out);
  out.push_back(CloseContext{failure});
}

std::optional<Send> PassCore::answer_for_closed(WorkerId from, const PassMessage& message) {
  if (const auto* ask = std::get_if<TurnAsk>(&message)) {
    return Send{from, Close{ask->pass.context, Code::context_closed, "the context was closed", 0}};
  }
  if (const auto* start = std::get_if<Start>(&message)) {
    return Send{from, Fail{start->pass, Code::context_closed, "the context was closed", {}}};
  }
  if (const auto* ask = std::get_if<VerdictAsk>(&message)) {
    return Send{from, VerdictAnswer{ask->pass, Verdict::unknown, ask->lost}};
  }
  return std::nullopt;
}

Failure PassCore::lost_in_backward(WorkerId peer) const {
  return loss_of(peer, "a participant was lost during backward");
}

Failure PassCore::loss_of(WorkerId peer, const std::string& what) const {
  const std::string& why = lost_.at(peer);
  return failure_of(Code::peer_lost, why.empty() ? what : what + ": " + why, worker_name(peer));
}

Failure PassCore::spoilt() const {
  return failure_of(Code::pass_failed,
                    "a backward pass failed that was not rerunnable: saved tensors are gone");
}

Failure PassCore::failure_of(Code code, std::string message, std::string worker) const {
  return {code, std::move(message), std::move(worker), context_};
}

}  // namespace rehearse::autograd
