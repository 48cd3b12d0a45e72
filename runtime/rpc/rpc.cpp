#include "runtime/rpc/rpc.hpp"

#include <algorithm>
#include <charconv>

namespace rehearse {

int Peer::rank(int world_size) const {
  int rank = rank_;
  if (!name_.empty()) {
    const char* end = name_.data() + name_.size();
    const auto [stop, error] = std::from_chars(name_.data() + 1, end, rank);
    if (name_[0] != 'w' || error != std::errc() || stop != end) rank = -1;
  }
  if (rank >= 0 && rank < world_size) return rank;
  const std::string asked =
      name_.empty() ? fmt::format("rank {}", rank_) : fmt::format("'{}'", name_);
  throw Error(Code::unknown_worker,
              fmt::format("no worker is {}; this job has w0 to w{}", asked, world_size - 1));
}

Time Rpc::deadline_of(const CallOptions& options) const {
  const Duration length =
      options.deadline == Duration::zero() ? calls_.world().limits.call : options.deadline;
  // A handler's own calls cannot outlast the request that it serves.
  return std::min(after(calls_.world().clock.now(), length), calls_.places().current().deadline);
}

}  // namespace rehearse
