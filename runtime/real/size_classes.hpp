#pragma once

#include <bit>
#include <cstddef>

namespace rehearse::real {

/// Sizes of memory that is used again: two per power of two, so that at most a third of a block is
/// unused.
struct SizeClasses {
  static constexpr std::size_t kCount = 96;

  /// The smallest class that has room. REQUIRES: size_bytes > 2.
  static constexpr std::size_t of(std::size_t size_bytes) {
    const auto power = static_cast<std::size_t>(std::bit_width(size_bytes - 1));
    const std::size_t three_quarters = std::size_t{3} << (power - 2);
    return 2 * power - (size_bytes <= three_quarters ? 1 : 0);
  }
  static constexpr std::size_t size_bytes(std::size_t size_class) {
    const std::size_t power = (size_class + 1) / 2;
    return size_class % 2 == 0 ? std::size_t{1} << power : std::size_t{3} << (power - 2);
  }
};

}  // namespace rehearse::real
