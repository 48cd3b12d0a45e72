#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "runtime/autograd/ids.hpp"
#include "runtime/base/check.hpp"

namespace rehearse::autograd {

/// The way of reports: a heap of `arity` children each, the initiator at its root, then the sorted
/// participants. Arity 0: everybody reports to the initiator.
class ReportTree {
 public:
  ReportTree(WorkerId initiator, const std::vector<WorkerId>& participants, std::uint32_t arity)
      : initiator_(initiator), participants_(participants), arity_(arity) {}

  /// REQUIRES: `worker` is a participant.
  WorkerId parent(WorkerId worker) const {
    const std::size_t above = arity_ == 0 ? 0 : (place(worker) - 1) / arity_;
    return above == 0 ? initiator_ : participants_[above - 1];
  }
  /// All whose reports pass through `worker`.
  std::set<WorkerId> below(WorkerId worker) const {
    std::set<WorkerId> found;
    if (arity_ == 0) return found;
    // The places of one level below a place are neighbours.
    std::size_t first = place(worker), last = first;
    while (true) {
      first = first * arity_ + 1;
      last = last * arity_ + arity_;
      if (first > participants_.size()) return found;
      const std::size_t end = std::min(last, participants_.size());
      for (std::size_t at = first; at <= end; ++at) found.insert(participants_[at - 1]);
    }
  }

 private:
  std::size_t place(WorkerId worker) const {
    const auto at = std::lower_bound(participants_.begin(), participants_.end(), worker);
    REHEARSE_CHECK(at != participants_.end() && *at == worker, worker_name(worker));
    return static_cast<std::size_t>(at - participants_.begin()) + 1;
  }

  WorkerId initiator_;
  const std::vector<WorkerId>& participants_;
  std::uint32_t arity_;
};

}  // namespace rehearse::autograd
