#include "runtime/rpc/rpc.hpp"

#include <fmt/format.h>

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

}  // namespace rehearse
