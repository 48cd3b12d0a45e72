#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

namespace rehearse {

/// Memory to write into before it becomes a `Payload`.
struct Buffer {
  std::shared_ptr<void> owner;  ///< null: there was no memory
  std::span<std::byte> bytes;   ///< aligned to 64; undefined content
};

/// Where buffers come from: here, the heap.
class Buffers {
 public:
  virtual ~Buffers() = default;
  virtual Buffer take(std::size_t size_bytes) { return from_heap(size_bytes); }

 protected:
  static Buffer from_heap(std::size_t size_bytes) {
    constexpr std::size_t kAlignment = 64;
    const std::size_t rounded = (size_bytes + kAlignment) / kAlignment * kAlignment;
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
    if (!memory) return {};
    return {std::shared_ptr<void>(memory, [](void* freed) { std::free(freed); }),
            {memory, size_bytes}};
  }
};

}  // namespace rehearse
