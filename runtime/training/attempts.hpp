#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>

namespace rehearse::training {

/// Numbers the attempts of one trainer, over all its steps, and knows below which of them every
/// owner knows how they ended: what owners need not remember any more.
class Attempts {
 public:
  std::uint64_t begin() {
    open_.emplace(next_, 0);
    return next_++;
  }
  /// Its verdict goes to `owners` owners.
  void decided(std::uint64_t attempt, std::size_t owners) {
    open_[attempt] = owners;
    if (owners == 0) open_.erase(attempt);
  }
  /// One of them has it, or is lost.
  void settled(std::uint64_t attempt) {
    const auto found = open_.find(attempt);
    if (found != open_.end() && --found->second == 0) open_.erase(found);
  }
  std::uint64_t settled_below() const { return open_.empty() ? next_ : open_.begin()->first; }
  std::size_t open() const { return open_.size(); }

  auto operator<=>(const Attempts&) const = default;

 private:
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, std::size_t> open_;  ///< and how many owners have not said so
};

}  // namespace rehearse::training
