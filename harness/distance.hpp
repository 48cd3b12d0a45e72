#pragma once

#include <cstdint>
#include <optional>

#include "harness/scenario.hpp"
#include "runtime/base/bytes.hpp"

namespace rehearse::harness {

/// How far the numbers of one tensor are from those of its reference.
struct Distance {
  /// Between two neighbours of the same type it is one. NaN is far from every number, and no
  /// distance from NaN.
  std::int64_t max_ulp = 0;
  /// The largest difference over the largest magnitude in the reference: small elements of a tensor
  /// are sums in which large ones cancelled.
  double relative = 0;
  /// Where the numbers differ most in units in the last place; nothing: nowhere.
  std::optional<std::int64_t> index;
};

/// Of `JournalEntry::values`. Nothing if one has none, or they are of another type or length.
std::optional<Distance> distance(const Bytes& values, const Bytes& reference);

/// Whether `distance` is beyond the bound. REQUIRES: the bound is one of `max_ulp`, `relative`.
bool is_beyond(const Closeness& bound, const Distance& distance);

}  // namespace rehearse::harness
