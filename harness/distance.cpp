#include "harness/distance.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "runtime/base/check.hpp"
#include "runtime/world/event.hpp"

namespace rehearse::harness {
namespace {

constexpr std::int64_t kInfinitelyFar = std::numeric_limits<std::int64_t>::max();

/// A type of number by its bits: an integer of its size, and how many of them are fraction.
template <class Bits, int kFraction>
struct Format {
  using Unsigned = Bits;
  static constexpr int kBits = static_cast<int>(8 * sizeof(Bits));
  static constexpr Bits kSign = static_cast<Bits>(Bits{1} << (kBits - 1));
  static constexpr Bits kInfinity =
      static_cast<Bits>((kSign - 1) & ~static_cast<Bits>((Bits{1} << kFraction) - 1));

  static Bits magnitude(Bits bits) { return static_cast<Bits>(bits & (kSign - 1)); }
  static bool is_nan(Bits bits) { return magnitude(bits) > kInfinity; }
  /// Neighbours differ by one; both zeros are 0.
  static std::int64_t order(Bits bits) {
    const auto size = static_cast<std::int64_t>(magnitude(bits));
    return (bits & kSign) != 0 ? -size : size;
  }
  static double value(Bits bits) {
    const Bits size = magnitude(bits);
    const int exponent = static_cast<int>(size >> kFraction);
    const auto fraction = static_cast<double>(size & ((Bits{1} << kFraction) - 1));
    const int bias = (1 << (kBits - 2 - kFraction)) - 1;
    const double unit = std::ldexp(1.0, std::max(exponent, 1) - bias - kFraction);
    const double whole = exponent == 0 ? 0 : std::ldexp(1.0, kFraction);
    const double number = size >= kInfinity ? HUGE_VAL : (whole + fraction) * unit;
    return (bits & kSign) != 0 ? -number : number;
  }
};

template <class Bits>
std::int64_t between(std::int64_t a, std::int64_t b) {
  std::int64_t apart = 0;
  return __builtin_sub_overflow(std::max(a, b), std::min(a, b), &apart) ? kInfinitelyFar : apart;
}

template <class F>
Distance measure(std::span<const std::byte> values, std::span<const std::byte> reference) {
  using Bits = typename F::Unsigned;
  Distance distance;
  double largest = 0, apart = 0;
  for (std::size_t at = 0; at + sizeof(Bits) <= values.size(); at += sizeof(Bits)) {
    Bits ours, theirs;
    std::memcpy(&ours, values.data() + at, sizeof ours);
    std::memcpy(&theirs, reference.data() + at, sizeof theirs);
    const bool nan = F::is_nan(ours), expected_nan = F::is_nan(theirs);
    if (!expected_nan) largest = std::max(largest, std::abs(F::value(theirs)));
    if (ours == theirs || (nan && expected_nan)) continue;
    const bool either = nan || expected_nan;
    const std::int64_t ulp =
        either ? kInfinitelyFar : between<Bits>(F::order(ours), F::order(theirs));
    apart = either ? HUGE_VAL : std::max(apart, std::abs(F::value(ours) - F::value(theirs)));
    if (distance.index && ulp <= distance.max_ulp) continue;
    distance.max_ulp = ulp;
    distance.index = static_cast<std::int64_t>(at / sizeof(Bits));
  }
  if (apart > 0) distance.relative = largest > 0 && apart < HUGE_VAL ? apart / largest : HUGE_VAL;
  return distance;
}

}  // namespace

std::optional<Distance> distance(const Bytes& values, const Bytes& reference) {
  if (values.empty() || values.size() != reference.size()) return std::nullopt;
  if (values.front() != reference.front()) return std::nullopt;
  const auto ours = std::span(values).subspan(1), theirs = std::span(reference).subspan(1);
  switch (static_cast<Element>(values.front())) {
    case Element::float16:
      return measure<Format<std::uint16_t, 10>>(ours, theirs);
    case Element::bfloat16:
      return measure<Format<std::uint16_t, 7>>(ours, theirs);
    case Element::float32:
      return measure<Format<std::uint32_t, 23>>(ours, theirs);
    case Element::float64:
      return measure<Format<std::uint64_t, 52>>(ours, theirs);
  }
  return std::nullopt;
}

bool is_beyond(const Closeness& bound, const Distance& distance) {
  if (bound.kind == Closeness::Kind::max_ulp) return distance.max_ulp > bound.max_ulp;
  REHEARSE_CHECK(bound.kind == Closeness::Kind::relative, "this closeness is no bound");
  return !(distance.relative <= bound.relative);
}

}  // namespace rehearse::harness
