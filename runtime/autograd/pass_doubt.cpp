#include <algorithm>

#include "runtime/autograd/pass.hpp"

// Why this decides alike everywhere. Only the initiator decides to commit; whoever knows that it
// did heard it from the initiator or from somebody who knew. A worker closes the context only when
// all others that could know have answered that they do not, each after it had seen the loss of the
// same set of workers, from which nothing can be in the air any more. After that nobody can come to
// know.

namespace rehearse::autograd {

void PassCore::ask_verdict(Pass& pass, Actions& out) {
  pass.stage = Stage::in_doubt;
  pass.asked = {pass.participants.begin(), pass.participants.end()};
  pass.asked.insert(creator_of(context_));
  pass.asked.erase(self_);
  for (const auto& [worker, why] : lost_) pass.asked.erase(worker);
  const std::vector<WorkerId> lost = lost_of(pass);
  for (const WorkerId worker : pass.asked) {
    const bool participant =
        std::binary_search(pass.participants.begin(), pass.participants.end(), worker);
    send(worker, VerdictAsk{pass.id, participant, lost}, out);
  }
  close_if_nobody_knows(pass, out);
}

std::vector<WorkerId> PassCore::lost_of(const Pass& pass) const {
  std::vector<WorkerId> lost;
  for (const auto& [worker, why] : lost_) {
    if (worker == pass.id.initiator ||
        std::binary_search(pass.participants.begin(), pass.participants.end(), worker)) {
      lost.push_back(worker);
    }
  }
  return lost;
}

void PassCore::on(WorkerId from, const VerdictAnswer& answer, Actions& out) {
  Pass* pass = find(answer.pass);
  if (!pass || pass->stage != Stage::in_doubt) {
    ++statistics_.late;
  } else if (answer.verdict == Verdict::committed || answer.verdict == Verdict::aborted) {
    settle(answer.pass, answer.verdict, out);
  } else if (answer.lost == lost_of(*pass)) {
    pass->asked.erase(from);
    close_if_nobody_knows(*pass, out);
  }
}

void PassCore::close_if_nobody_knows(const Pass& pass, Actions& out) {
  if (!pass.asked.empty()) return;
  give_up(
      failure_of(Code::pass_failed,
                 "the initiator of a backward pass was lost before it said how the pass ended, and "
                 "no survivor knows",
                 worker_name(pass.id.initiator)),
      out);
}

void PassCore::on(WorkerId from, const VerdictAsk& ask, Actions& out) {
  std::erase_if(questions_, [&](const Question& question) {
    return question.from == from && question.ask.pass == ask.pass;
  });
  questions_.push_back({from, ask});
  answer_questions(out);
}

void PassCore::answer_questions(Actions& out) {
  std::erase_if(questions_, [&](const Question& question) {
    const std::optional<Verdict> verdict = answer_to(question.ask);
    if (!verdict) return false;
    send(question.from, VerdictAnswer{question.ask.pass, *verdict, question.ask.lost}, out);
    return true;
  });
}

/// Nothing yet, while something about the pass may still be in the air.
std::optional<Verdict> PassCore::answer_to(const VerdictAsk& ask) const {
  if (closed_) return Verdict::unknown;
  const Verdict known = verdicts_.of(ask.pass);
  if (known == Verdict::committed || known == Verdict::aborted) return known;
  if (known == Verdict::none && ask.participant) return Verdict::aborted;
  for (const WorkerId worker : ask.lost) {
    if (!lost_.contains(worker)) return std::nullopt;
  }
  // A participant that never heard of the pass has not reported it, and never will.
  const bool never_began = !passes_.contains(ask.pass) && !verdicts_.over(ask.pass);
  return never_began && ask.participant ? Verdict::aborted : Verdict::unknown;
}

}  // namespace rehearse::autograd
