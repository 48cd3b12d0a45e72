#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/real/channel.hpp"
#include "runtime/real/shared_memory.hpp"
#include "runtime/real/size_classes.hpp"

namespace rehearse::real {

/// Memory that this process lends to peers of its host: blocks by size class in one piece of shared
/// memory, used again, on huge pages. A block is in use while somebody here holds its buffer, and
/// lent until the peer says in the shared memory itself that it has let go. So no message is
/// needed for that, and the end of a connection changes nothing.
///
/// Buffers may be given back by any thread and outlive the pool's maker.
class SharedPool final : public Buffers, public std::enable_shared_from_this<SharedPool> {
 public:
  static constexpr std::size_t kKeptBytesMax = std::size_t{1} << 30;

  /// Keeps at most `kept_bytes_max` of memory that nobody uses: much, because fresh shared memory
  /// costs more than several copies of what it is taken for. Fails with `cannot_start`.
  static Result<std::shared_ptr<SharedPool>> make(std::size_t kept_bytes_max = kKeptBytesMax);

  /// From the heap if small, or if the pool is used up.
  Buffer take(std::size_t size_bytes) override;
  /// Null owner instead of the heap.
  Buffer take_block(std::size_t size_bytes);
  /// Lends the block that begins with `bytes` to `worker`. Nothing if there is none, or it is lent.
  std::optional<Loan> lend(std::span<const std::byte> bytes, std::uint16_t worker);
  /// The process of `worker` is gone: what it had is free again.
  void reclaim(std::uint16_t worker);

  int descriptor() const { return memory_.descriptor(); }
  /// How many blocks peers have.
  std::size_t lent() const;

 private:
  struct Block {
    std::uint64_t offset = 0;
    std::size_t size_class = 0;
    bool used = false;  // by somebody here
    bool cold = false;  // its memory has been given back to the system
    std::uint16_t lent_to = 0;
  };

  SharedPool(SharedMemory memory, std::size_t kept_bytes_max)
      : memory_(std::move(memory)), kept_bytes_max_(kept_bytes_max) {}
  std::optional<std::uint32_t> find_free(std::size_t size_class);
  std::optional<std::uint32_t> grow(std::size_t size_class);
  void harvest(std::size_t size_class);
  void give_back(std::uint32_t number);
  void keep(std::uint32_t number);
  std::atomic<std::uint32_t>& lent_flag(std::uint32_t number) const;
  std::span<std::byte> bytes_of(const Block& block) const;

  SharedMemory memory_;
  std::size_t kept_bytes_max_;
  mutable std::mutex mutex_;
  std::vector<Block> blocks_;  // in the order of their offsets
  std::uint64_t end_ = 0;
  std::size_t kept_bytes_ = 0;
  std::array<std::vector<std::uint32_t>, SizeClasses::kCount> free_;
  std::array<std::vector<std::uint32_t>, SizeClasses::kCount> away_;  // lent, and not used here
};

/// The pool of a peer, seen from here.
class BorrowedPool final : public std::enable_shared_from_this<BorrowedPool> {
 public:
  /// Fails with `corrupt` if that is no pool.
  static Result<std::shared_ptr<BorrowedPool>> map(Descriptor descriptor);
  /// Fails with `corrupt` for what cannot have been lent.
  Result<Payload> borrow(const Loan& loan);

 private:
  explicit BorrowedPool(SharedMemory memory) : memory_(std::move(memory)) {}

  SharedMemory memory_;
};

}  // namespace rehearse::real
