#include "runtime/autograd/turn.hpp"

#include <algorithm>

namespace rehearse::autograd {

std::optional<Turn> TurnQueue::grant() {
  if (holder_ || waiting_.empty()) return std::nullopt;
  holder_ = waiting_.front();
  waiting_.pop_front();
  return Turn{*holder_, previous_};
}

bool TurnQueue::end(const PassId& pass, Verdict verdict) {
  if (holder_ != pass) return std::erase(waiting_, pass) != 0;
  holder_.reset();
  if (verdict != Verdict::none) previous_ = {pass, verdict};
  return true;
}

void TurnQueue::forget(WorkerId lost) {
  std::erase_if(waiting_, [lost](const PassId& pass) { return pass.initiator == lost; });
}

std::vector<PassId> TurnQueue::all() const {
  std::vector<PassId> passes(waiting_.begin(), waiting_.end());
  if (holder_) passes.insert(passes.begin(), *holder_);
  return passes;
}

}  // namespace rehearse::autograd
