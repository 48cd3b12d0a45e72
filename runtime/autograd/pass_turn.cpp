#include <utility>

#include "runtime/autograd/pass.hpp"

namespace rehearse::autograd {

PassId PassCore::new_pass() { return {context_, self_, next_counter_++}; }

Actions PassCore::ask_turn(PassId pass) {
  Actions out;
  if (closed_) {
    out.push_back(Finished{pass, *closed_});
    return out;
  }
  asked_.insert(pass);
  if (creator()) {
    turns_.ask(pass);
    grant_next(out);
  } else {
    send(creator_of(context_), TurnAsk{pass}, out);
  }
  return out;
}

Actions PassCore::cancel(PassId pass) {
  Actions out;
  if (asked_.erase(pass) != 0) {
    end_turn(pass, Verdict::none, out);
  } else if (find(pass) && mine(pass)) {
    fail(pass, failure_of(Code::cancelled, "backward was cancelled", worker_name(self_)), out);
  }
  return out;
}

void PassCore::end_turn(const PassId& pass, Verdict verdict, Actions& out) {
  if (closed_) return;
  if (granted_ && granted_->pass == pass) {
    granted_.reset();
    announced_ = false;
  }
  if (creator()) {
    turns_.end(pass, verdict);
    grant_next(out);
  } else {
    send(creator_of(context_), TurnEnd{pass, verdict}, out);
  }
}

void PassCore::grant_next(Actions& out) {
  const std::optional<Turn> turn = turns_.grant();
  if (!turn) return;
  if (!mine(turn->pass)) return send(turn->pass.initiator, *turn, out);
  granted_ = turn;
  note_previous(turn->previous, out);
  grant_here(out);
}

/// The own pass that has the turn may begin once older passes are settled here.
void PassCore::grant_here(Actions& out) {
  if (!granted_ || announced_ || !passes_.empty()) return;
  announced_ = true;
  out.push_back(TurnGranted{granted_->pass});
}

void PassCore::on(WorkerId, const TurnAsk& ask, Actions& out) {
  if (!creator()) {
    ++statistics_.stray;
    return;
  }
  turns_.ask(ask.pass);
  grant_next(out);
}

void PassCore::on(WorkerId from, const Turn& turn, Actions& out) {
  if (from != creator_of(context_)) {
    ++statistics_.stray;
  } else if (!asked_.contains(turn.pass)) {
    ++statistics_.late;  // withdrawn meanwhile; the creator has been told, or will be
  } else {
    granted_ = turn;
    note_previous(turn.previous, out);
    grant_here(out);
  }
}

void PassCore::on(WorkerId, const TurnEnd& end, Actions& out) {
  if (!creator()) {
    ++statistics_.stray;
    return;
  }
  if (end.verdict != Verdict::none) verdicts_.record(end.pass, end.verdict);
  turns_.end(end.pass, end.verdict);
  answer_questions(out);
  grant_next(out);
}

/// At the creator: a turn ends with the loss of its holder, unless the creator itself does not yet
/// know how to settle that pass.
void PassCore::end_turn_of_lost(Actions& out) {
  const std::optional<PassId> holder = turns_.holder();
  if (!holder || !lost_.contains(holder->initiator) || find(*holder)) return;
  const Verdict verdict = verdicts_.of(*holder);
  turns_.end(*holder, verdict == Verdict::none ? Verdict::unknown : verdict);
  grant_next(out);
}

/// The verdict of the context's previous pass has arrived with something else. `unknown`: its
/// initiator was lost, so whoever has no part in it yet never will.
void PassCore::note_previous(const Settled& previous, Actions& out) {
  if (previous.verdict == Verdict::none || mine(previous.pass)) return;
  const Pass* pass = find(previous.pass);
  if (!pass) {
    const bool known = previous.verdict != Verdict::unknown;
    if (!verdicts_.over(previous.pass)) {
      refuse(previous.pass, known ? previous.verdict : Verdict::none);
    }
  } else if (previous.verdict == Verdict::aborted) {
    settle(previous.pass, Verdict::aborted, out);
  } else if (previous.verdict == Verdict::committed) {
    if (pass->stage >= Stage::reported) return settle(previous.pass, Verdict::committed, out);
    ++statistics_.stray;
  }
}

}  // namespace rehearse::autograd
