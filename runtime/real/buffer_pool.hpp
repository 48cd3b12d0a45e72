#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/real/size_classes.hpp"
#include "runtime/world/buffers.hpp"

namespace rehearse::real {

/// Memory to receive into. Fresh memory halves the rate of a large transfer (page faults), so
/// buffers of 64 KiB and more are kept by size class and used again, on huge pages from 2 MiB on.
/// A buffer may be given back by any thread and outlive the pool's maker.
class BufferPool final : public Buffers, public std::enable_shared_from_this<BufferPool> {
 public:
  /// Keeps at most `kept_bytes_max` that nobody uses.
  static std::shared_ptr<BufferPool> make(std::size_t kept_bytes_max = std::size_t{256} << 20);
  ~BufferPool() override;
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  Buffer take(std::size_t size_bytes) override;

 private:
  struct Block {
    void* memory;
    std::size_t size_bytes;
  };

  explicit BufferPool(std::size_t kept_bytes_max) : kept_bytes_max_(kept_bytes_max) {}
  void give_back(Block block, std::size_t size_class);

  std::size_t kept_bytes_max_;
  std::mutex mutex_;
  std::size_t kept_bytes_ = 0;
  std::array<std::vector<Block>, SizeClasses::kCount> kept_;
};

}  // namespace rehearse::real
