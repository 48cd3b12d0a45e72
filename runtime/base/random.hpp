#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

namespace rehearse {

/// One step of splitmix64 (Steele, Lea, Flood 2014): a good mixer of 64 bits.
constexpr std::uint64_t mix64(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

/// A 64-bit hash of a sequence of words and texts; order counts. The same on every machine.
class Hash64 {
 public:
  constexpr Hash64& add(std::uint64_t word) {
    value_ = mix64(value_ ^ word);
    return *this;
  }
  constexpr Hash64& add(std::string_view text) {
    add(text.size());
    for (const char letter : text) add(static_cast<unsigned char>(letter));
    return *this;
  }
  constexpr std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0x243f6a8885a308d3ULL;
};

/// xoshiro256** (Blackman, Vigna 2018), seeded by splitmix64. A value: copy it to repeat it.
/// Satisfies UniformRandomBitGenerator.
class Random {
 public:
  using result_type = std::uint64_t;

  explicit constexpr Random(std::uint64_t seed) {
    for (auto& word : state_) word = seed = mix64(seed);
  }
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }

  constexpr result_type operator()() {
    const std::uint64_t result = rotate(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = rotate(state_[3], 45);
    return result;
  }

  /// Uniform in [0, bound). REQUIRES: bound > 0.
  constexpr std::uint64_t below(std::uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>((*this)()) * bound) >> 64);
  }
  /// Uniform in [0, 1).
  constexpr double unit() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }
  constexpr bool chance(double probability) { return unit() < probability; }

  /// A stream of its own, named; asking does not change this one.
  constexpr Random split(std::string_view name) const {
    return Random(
        Hash64().add(state_[0]).add(state_[1]).add(state_[2]).add(state_[3]).add(name).value());
  }

 private:
  static constexpr std::uint64_t rotate(std::uint64_t word, int by) {
    return (word << by) | (word >> (64 - by));
  }

  std::array<std::uint64_t, 4> state_{};
};

}  // namespace rehearse
