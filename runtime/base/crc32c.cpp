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
// The instruction takes three cycles and a new one can start in each: three streams at once, put
// together with a table that says what a block of zeros does to a checksum (M. Adler's method).
constexpr std::size_t kBlockBytes = 1024;

using Matrix = std::array<std::uint32_t, 32>;  // columns, over GF(2)

constexpr std::uint32_t apply(const Matrix& matrix, std::uint32_t vector) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; vector != 0; ++i, vector >>= 1) {
    if (vector & 1) sum ^= matrix[i];
  }
  return sum;
}

constexpr Matrix squared(const Matrix& matrix) {
  Matrix result{};
  for (std::size_t i = 0; i < 32; ++i) result[i] = apply(matrix, matrix[i]);
  return result;
}

using ShiftTable = std::array<std::array<std::uint32_t, 256>, 4>;

// What kBlockBytes zero bytes do to each byte of a checksum.
constexpr ShiftTable make_shift() {
  Matrix shift{};  // by one bit
  shift[0] = 0x82f63b78;
  for (std::size_t i = 1; i < 32; ++i) shift[i] = std::uint32_t{1} << (i - 1);
  for (std::size_t bits = 1; bits < kBlockBytes * 8; bits *= 2) shift = squared(shift);
  ShiftTable table{};
  for (std::size_t byte = 0; byte < 4; ++byte) {
    for (std::uint32_t value = 0; value < 256; ++value) {
      table[byte][value] = apply(shift, value << (8 * byte));
    }
  }
  return table;
}
constexpr ShiftTable kShift = make_shift();

std::uint32_t past_block(std::uint64_t crc) {
  return kShift[0][crc & 0xff] ^ kShift[1][(crc >> 8) & 0xff] ^ kShift[2][(crc >> 16) & 0xff] ^
         kShift[3][(crc >> 24) & 0xff];
}

std::uint64_t word_at(const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

__attribute__((target("sse4.2"))) std::uint32_t by_instruction(const std::byte* at,
                                                               std::size_t size,
                                                               std::uint32_t crc) {
  std::uint64_t wide = crc;
  for (; size >= 3 * kBlockBytes; size -= 3 * kBlockBytes, at += 3 * kBlockBytes) {
    std::uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < kBlockBytes; i += 8) {
      wide = _mm_crc32_u64(wide, word_at(at + i));
      second = _mm_crc32_u64(second, word_at(at + kBlockBytes + i));
      third = _mm_crc32_u64(third, word_at(at + 2 * kBlockBytes + i));
    }
    wide = past_block(past_block(wide) ^ second) ^ third;
  }
  for (; size >= 8; size -= 8, at += 8) wide = _mm_crc32_u64(wide, word_at(at));
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
