#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "runtime/autograd/protocol.hpp"

namespace rehearse::autograd {

/// The order of a context's passes, kept by its creator: first come, first served. A second pass
/// begins only when the verdict of the first is out, or its initiator is lost.
class TurnQueue {
 public:
  void ask(const PassId& pass) { waiting_.push_back(pass); }
  /// The pass that has the turn now and had not before, if any. Whoever calls tells its initiator.
  std::optional<Turn> grant();
  /// The holder gives the turn back, or a waiting pass is withdrawn. False if it is neither.
  bool end(const PassId& pass, Verdict verdict);
  /// Forgets the waiting passes of a lost worker.
  void forget(WorkerId lost);

  /// The holder and all that wait.
  std::vector<PassId> all() const;
  const std::optional<PassId>& holder() const { return holder_; }

 private:
  std::optional<PassId> holder_;
  std::deque<PassId> waiting_;
  Settled previous_;
};

}  // namespace rehearse::autograd
