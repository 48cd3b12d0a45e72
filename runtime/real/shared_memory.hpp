#pragma once

#include <cstddef>
#include <span>

#include "runtime/base/result.hpp"
#include "runtime/real/descriptor.hpp"

namespace rehearse::real {

/// Memory without a name that processes share by passing its descriptor: when the last one that has
/// mapped it ends, however it ends, it is gone.
class SharedMemory {
 public:
  /// Zeros of a fixed size; memory is taken as it is touched, in huge pages if `huge`.
  /// Fails with `cannot_start`.
  static Result<SharedMemory> make(const char* label, std::size_t size_bytes, bool huge);
  /// What a peer has made. Fails with `corrupt` if it is not of that size, or could shrink.
  static Result<SharedMemory> map(Descriptor descriptor, std::size_t size_bytes, bool huge);

  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  std::span<std::byte> bytes() const { return bytes_; }
  int descriptor() const { return descriptor_.get(); }

 private:
  SharedMemory(Descriptor descriptor, std::span<std::byte> bytes)
      : descriptor_(std::move(descriptor)), bytes_(bytes) {}

  Descriptor descriptor_;
  std::span<std::byte> bytes_;
};

}  // namespace rehearse::real
