#include "runtime/autograd/verdicts.hpp"

#include <algorithm>

namespace rehearse::autograd {

void VerdictLog::close(const PassId& pass) {
  std::uint64_t& open_from = open_from_[pass.initiator];
  open_from = std::max<std::uint64_t>(open_from, std::uint64_t{pass.counter} + 1);
}

bool VerdictLog::over(const PassId& pass) const {
  const auto at = open_from_.find(pass.initiator);
  return at != open_from_.end() && pass.counter < at->second;
}

void VerdictLog::record(const PassId& pass, Verdict verdict) {
  if (verdict == Verdict::unknown || of(pass) != Verdict::unknown) return;
  latest_.push_back({pass, verdict});
  if (latest_.size() > kKept) latest_.pop_front();
}

Verdict VerdictLog::of(const PassId& pass) const {
  for (const Settled& settled : latest_) {
    if (settled.pass == pass) return settled.verdict;
  }
  return Verdict::unknown;
}

}  // namespace rehearse::autograd
