#include "runtime/base/crc32c.hpp"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace rehearse {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? 0x82f63b78U : 0);
    table[byte] = value;
  }
  return table;
}
constexpr auto kTable = make_table();

std::uint32_t by_table(const std::byte* at, std::size_t size, std::uint32_t crc) {
  for (; size > 0; --size, ++at) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<std::uint32_t>(*at)) & 0xff];
  }
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(const std::byte* at,
                                                               std::size_t size,
                                                               std::uint32_t crc) {
  std::uint64_t wide = crc;
  for (; size >= 8; size -= 8, at += 8) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    wide = _mm_crc32_u64(wide, word);
  }
  auto narrow = static_cast<std::uint32_t>(wide);
  for (; size > 0; --size, ++at) narrow = _mm_crc32_u8(narrow, static_cast<std::uint8_t>(*at));
  return narrow;
}
#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  const std::uint32_t start = ~before;
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return ~by_instruction(bytes.data(), bytes.size(), start);
#endif
  return ~by_table(bytes.data(), bytes.size(), start);
}

}  // namespace rehearse
