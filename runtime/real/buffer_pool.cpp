#include "runtime/real/buffer_pool.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace rehearse::real {
namespace {

constexpr std::size_t kPooledBytesMin = std::size_t{64} << 10;
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
constexpr std::size_t kAlignment = 64;

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

void* allocate(std::size_t size_bytes) {
  const bool huge = size_bytes >= kHugePageBytes;
  void* memory = std::aligned_alloc(huge ? kHugePageBytes : kAlignment,
                                    round_up(size_bytes, huge ? kHugePageBytes : kAlignment));
  if (memory && huge) ::madvise(memory, round_up(size_bytes, kHugePageBytes), MADV_HUGEPAGE);
  return memory;
}

}  // namespace

std::shared_ptr<BufferPool> BufferPool::make(std::size_t kept_bytes_max) {
  return std::shared_ptr<BufferPool>(new BufferPool(kept_bytes_max));
}

BufferPool::~BufferPool() {
  for (auto& blocks : kept_) {
    for (const Block& block : blocks) std::free(block.memory);
  }
}

Buffer BufferPool::take(std::size_t size_bytes) {
  if (size_bytes < kPooledBytesMin) return from_heap(size_bytes);
  const std::size_t size_class = SizeClasses::of(size_bytes);
  Block block{nullptr, SizeClasses::size_bytes(size_class)};
  {
    const std::lock_guard lock(mutex_);
    if (!kept_[size_class].empty()) {
      block = kept_[size_class].back();
      kept_[size_class].pop_back();
      kept_bytes_ -= block.size_bytes;
    }
  }
  if (!block.memory) block.memory = allocate(block.size_bytes);
  if (!block.memory) return {};
  return {std::shared_ptr<void>(block.memory, [pool = shared_from_this(), block, size_class](
                                                  void*) { pool->give_back(block, size_class); }),
          {static_cast<std::byte*>(block.memory), size_bytes}};
}

void BufferPool::give_back(Block block, std::size_t size_class) {
  {
    const std::lock_guard lock(mutex_);
    if (kept_bytes_ + block.size_bytes <= kept_bytes_max_) {
      kept_bytes_ += block.size_bytes;
      kept_[size_class].push_back(block);
      return;
    }
  }
  std::free(block.memory);
}

}  // namespace rehearse::real
