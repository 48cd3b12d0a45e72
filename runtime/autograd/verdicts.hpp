#pragma once

#include <deque>
#include <map>

#include "runtime/autograd/protocol.hpp"

namespace rehearse::autograd {

/// Which passes of a context are over, and how they ended. Bounded: passes of one initiator end in
/// the order of their counters, so one number per initiator says which are over; verdicts are kept
/// for the latest only. Who asks for an older one is told `unknown`, which is safe.
class VerdictLog {
 public:
  static constexpr std::size_t kKept = 256;

  /// Everything of this initiator up to `pass` is over.
  void close(const PassId& pass);
  bool over(const PassId& pass) const;
  /// The first record of a pass stays. `none`: this worker had no part in it.
  void record(const PassId& pass, Verdict verdict);
  /// What was recorded; `unknown` if nothing was, or it is too long ago.
  Verdict of(const PassId& pass) const;

 private:
  std::map<WorkerId, std::uint64_t> open_from_;  ///< the lowest counter that is not over
  std::deque<Settled> latest_;
};

}  // namespace rehearse::autograd
