#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "runtime/base/ids.hpp"
#include "runtime/base/random.hpp"

namespace rehearse::autograd {

/// A worker's slot, as in `Address::worker`.
using WorkerId = std::uint16_t;

/// 16 bits worker that created it, 16 bits generation, 32 bits counter. It is signed at the public
/// face; the parts are read unsigned.
using ContextId = std::int64_t;

constexpr ContextId make_context(WorkerId creator, std::uint16_t generation,
                                 std::uint32_t counter) {
  return static_cast<ContextId>(std::uint64_t{creator} << 48 | std::uint64_t{generation} << 32 |
                                counter);
}
constexpr WorkerId creator_of(ContextId context) {
  return static_cast<WorkerId>(static_cast<std::uint64_t>(context) >> 48);
}
constexpr std::uint16_t generation_of(ContextId context) {
  return static_cast<std::uint16_t>(static_cast<std::uint64_t>(context) >> 32);
}
constexpr std::uint32_t counter_of(ContextId context) {
  return static_cast<std::uint32_t>(context);
}

/// One crossing: a send node at the worker `owner()`, a recv node where its message went. Or, if
/// `shared()`, a set of pairs that `owner()` gave a number to; it occurs only behind other items.
/// Ordered by owner first.
class PairId {
 public:
  static constexpr std::uint64_t kCounterMax = (std::uint64_t{1} << 47) - 1;

  constexpr PairId() = default;
  constexpr PairId(WorkerId owner, std::uint64_t counter, bool shared = false)
      : value_(std::uint64_t{owner} << 48 | std::uint64_t{shared} << 47 | (counter & kCounterMax)) {
  }

  constexpr WorkerId owner() const { return static_cast<WorkerId>(value_ >> 48); }
  constexpr bool shared() const { return (value_ >> 47 & 1) != 0; }
  constexpr std::uint64_t counter() const { return value_ & kCounterMax; }
  constexpr std::uint64_t value() const { return value_; }

  auto operator<=>(const PairId&) const = default;

 private:
  std::uint64_t value_ = 0;
};

/// One run of `backward` in a context. Counters of one initiator rise in the order in which it asks
/// for the turn.
struct PassId {
  ContextId context = 0;
  WorkerId initiator = 0;
  std::uint32_t counter = 0;

  auto operator<=>(const PassId&) const = default;
};

}  // namespace rehearse::autograd

template <>
struct std::hash<rehearse::autograd::PairId> {
  std::size_t operator()(rehearse::autograd::PairId pair) const noexcept {
    return rehearse::mix64(pair.value());
  }
};
