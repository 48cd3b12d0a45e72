#pragma once

#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "runtime/base/bytes.hpp"

namespace rehearse {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

/// Appends plain values, little-endian and unaligned, to a buffer.
class Writer {
 public:
  explicit Writer(Bytes& to) : to_(to) {}

  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void put(T value) {
    append(&value, sizeof value);
  }
  /// 7 bits a byte, lowest first: one byte below 128.
  void put_varint(std::uint64_t value) {
    while (value >= 0x80) {
      to_.push_back(static_cast<std::byte>(value | 0x80));
      value >>= 7;
    }
    to_.push_back(static_cast<std::byte>(value));
  }
  void put_text(std::string_view text) {
    put_varint(text.size());
    append(text.data(), text.size());
  }
  void put_bytes(std::span<const std::byte> bytes) {
    put_varint(bytes.size());
    append(bytes.data(), bytes.size());
  }

 private:
  void append(const void* data, std::size_t size) {
    if (size == 0) return;
    const std::size_t end = to_.size();
    to_.resize(end + size);
    std::memcpy(to_.data() + end, data, size);
  }

  Bytes& to_;
};

/// Reads what `Writer` wrote, never past the end. After a failure everything reads as zero or
/// empty, and `failed()` is true: check it once, at the end, and before using a count.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> from) : from_(from) {}

  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) T get() {
    T value{};
    if (const std::byte* at = take(sizeof value)) std::memcpy(&value, at, sizeof value);
    return value;
  }
  std::uint64_t get_varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::byte* at = take(1);
      if (!at) return 0;
      value |= (static_cast<std::uint64_t>(*at) & 0x7f) << shift;
      if ((static_cast<std::uint8_t>(*at) & 0x80) == 0) return value;
    }
    failed_ = true;
    return 0;
  }
  std::string_view get_text() { return text_of(get_bytes()); }
  std::span<const std::byte> get_bytes() {
    const std::uint64_t size = get_varint();
    const std::byte* at = take(size);
    return at ? std::span(at, size) : std::span<const std::byte>();
  }
  /// A count of things that take at least `bytes_each` bytes: fails if so many cannot follow.
  std::size_t get_count(std::size_t bytes_each = 1) {
    const std::uint64_t count = get_varint();
    if (count > (from_.size() - position_) / bytes_each) {
      failed_ = true;
      return 0;
    }
    return count;
  }

  std::size_t position() const { return position_; }
  std::size_t left() const { return failed_ ? 0 : from_.size() - position_; }
  bool failed() const { return failed_; }

 private:
  const std::byte* take(std::size_t size) {
    if (failed_ || from_.size() - position_ < size) {
      failed_ = true;
      return nullptr;
    }
    const std::byte* at = from_.data() + position_;
    position_ += size;
    return at;
  }

  std::span<const std::byte> from_;
  std::size_t position_ = 0;
  bool failed_ = false;
};

}  // namespace rehearse
