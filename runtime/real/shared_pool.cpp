#include "runtime/real/shared_pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

namespace rehearse::real {
namespace {

// Addresses, not memory: that is taken as blocks are written to.
constexpr std::size_t kPoolBytes = std::size_t{64} << 30;
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kBlockBytesMin = std::size_t{16} << 10;
constexpr std::size_t kBlocksMax = std::size_t{64} << 10;

// At the beginning of a pool: which blocks are lent. The lender writes 1, the borrower 0.
struct LentFlags {
  std::array<std::atomic<std::uint32_t>, kBlocksMax> lent;
};
static_assert(sizeof(LentFlags) <= kHugePageBytes);
constexpr std::uint64_t kFirstBlockAt = kHugePageBytes;

std::atomic<std::uint32_t>& flag_in(const SharedMemory& memory, std::uint32_t number) {
  return reinterpret_cast<LentFlags*>(memory.bytes().data())->lent[number];
}

}  // namespace

Result<std::shared_ptr<SharedPool>> SharedPool::make(std::size_t kept_bytes_max) {
  auto memory = SharedMemory::make("rehearse-pool", kPoolBytes, true);
  if (!memory.ok()) return memory.failure();
  std::shared_ptr<SharedPool> pool(new SharedPool(std::move(memory).or_throw(), kept_bytes_max));
  pool->end_ = kFirstBlockAt;
  return pool;
}

std::atomic<std::uint32_t>& SharedPool::lent_flag(std::uint32_t number) const {
  return flag_in(memory_, number);
}

std::span<std::byte> SharedPool::bytes_of(const Block& block) const {
  return memory_.bytes().subspan(block.offset, SizeClasses::size_bytes(block.size_class));
}

Buffer SharedPool::take(std::size_t size_bytes) {
  if (size_bytes >= kBlockBytesMin) {
    if (Buffer block = take_block(size_bytes); block.owner) return block;
  }
  return from_heap(size_bytes);
}

Buffer SharedPool::take_block(std::size_t size_bytes) {
  if (size_bytes > kPoolBytes / 4) return {};
  const std::size_t size_class = SizeClasses::of(std::max(size_bytes, kBlockBytesMin));
  const std::lock_guard lock(mutex_);
  auto number = find_free(size_class);
  if (!number) number = grow(size_class);
  if (!number) return {};
  Block& block = blocks_[*number];
  block.used = true;
  std::byte* memory = bytes_of(block).data();
  return {std::shared_ptr<void>(memory, [pool = shared_from_this(),
                                         number = *number](void*) { pool->give_back(number); }),
          {memory, size_bytes}};
}

std::optional<std::uint32_t> SharedPool::find_free(std::size_t size_class) {
  auto& free = free_[size_class];
  if (free.empty()) harvest(size_class);
  if (free.empty()) return std::nullopt;
  const std::uint32_t number = free.back();
  free.pop_back();
  if (!std::exchange(blocks_[number].cold, false)) {
    kept_bytes_ -= SizeClasses::size_bytes(size_class);
  }
  return number;
}

std::optional<std::uint32_t> SharedPool::grow(std::size_t size_class) {
  const std::size_t size_bytes = SizeClasses::size_bytes(size_class);
  const std::size_t unit = size_bytes >= kHugePageBytes ? kHugePageBytes : kPageBytes;
  const std::uint64_t offset = (end_ + unit - 1) / unit * unit;
  if (blocks_.size() == kBlocksMax || offset + size_bytes > kPoolBytes) return std::nullopt;
  end_ = offset + size_bytes;
  blocks_.push_back({offset, size_class});
  return static_cast<std::uint32_t>(blocks_.size() - 1);
}

// Takes in what peers have let go of.
void SharedPool::harvest(std::size_t size_class) {
  auto& away = away_[size_class];
  const auto still_lent = std::partition(away.begin(), away.end(), [this](std::uint32_t number) {
    return lent_flag(number).load(std::memory_order_acquire) == 0;
  });
  for (auto each = away.begin(); each != still_lent; ++each) keep(*each);
  away.erase(away.begin(), still_lent);
}

void SharedPool::keep(std::uint32_t number) {
  Block& block = blocks_[number];
  const auto bytes = bytes_of(block);
  if (kept_bytes_ + bytes.size() > kept_bytes_max_) {
    ::madvise(bytes.data(), bytes.size(), MADV_REMOVE);
    block.cold = true;
    free_[block.size_class].insert(free_[block.size_class].begin(), number);
    return;
  }
  kept_bytes_ += bytes.size();
  free_[block.size_class].push_back(number);
}

void SharedPool::give_back(std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  Block& block = blocks_[number];
  block.used = false;
  if (lent_flag(number).load(std::memory_order_acquire) == 0) return keep(number);
  away_[block.size_class].push_back(number);
}

std::optional<Loan> SharedPool::lend(std::span<const std::byte> bytes, std::uint16_t worker) {
  const auto offset = static_cast<std::uint64_t>(bytes.data() - memory_.bytes().data());
  if (offset >= kPoolBytes) return std::nullopt;  // before the pool, too: it is unsigned
  const std::lock_guard lock(mutex_);
  const auto found = std::lower_bound(
      blocks_.begin(), blocks_.end(), offset,
      [](const Block& block, std::uint64_t wanted) { return block.offset < wanted; });
  if (found == blocks_.end() || found->offset != offset || !found->used) return std::nullopt;
  const auto number = static_cast<std::uint32_t>(found - blocks_.begin());
  if (lent_flag(number).load(std::memory_order_acquire) != 0) return std::nullopt;
  lent_flag(number).store(1, std::memory_order_release);
  found->lent_to = worker;
  return Loan{number, offset, bytes.size()};
}

void SharedPool::reclaim(std::uint16_t worker) {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t number = 0; number < blocks_.size(); ++number) {
    if (blocks_[number].lent_to == worker) lent_flag(number).store(0, std::memory_order_release);
  }
}

std::size_t SharedPool::lent() const {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (std::uint32_t number = 0; number < blocks_.size(); ++number) {
    if (lent_flag(number).load(std::memory_order_acquire) != 0) ++count;
  }
  return count;
}

// ---------------------------------------------------------------------------------------------

Result<std::shared_ptr<BorrowedPool>> BorrowedPool::map(Descriptor descriptor) {
  auto memory = SharedMemory::map(std::move(descriptor), kPoolBytes, true);
  if (!memory.ok()) return memory.failure();
  return std::shared_ptr<BorrowedPool>(new BorrowedPool(std::move(memory).or_throw()));
}

Result<Payload> BorrowedPool::borrow(const Loan& loan) {
  if (loan.block >= kBlocksMax || loan.offset < kFirstBlockAt || loan.offset > kPoolBytes ||
      loan.size_bytes > kPoolBytes - loan.offset ||
      flag_in(memory_, loan.block).load(std::memory_order_acquire) == 0) {
    return Failure{Code::corrupt, "a payload is said to be where nothing is lent", {}, 0};
  }
  const auto bytes = memory_.bytes().subspan(loan.offset, loan.size_bytes);
  std::shared_ptr<void> owner(bytes.data(), [pool = shared_from_this(), block = loan.block](void*) {
    flag_in(pool->memory_, block).store(0, std::memory_order_release);
  });
  return Payload(std::move(owner), bytes);
}

}  // namespace rehearse::real
