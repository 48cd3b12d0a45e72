#include "runtime/real/shared_pool.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace rehearse::real {
namespace {

constexpr std::uint16_t kPeer = 7;

Descriptor copy_of(int descriptor) { return Descriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)); }

struct Pools {
  std::shared_ptr<SharedPool> ours = SharedPool::make().or_throw();
  std::shared_ptr<BorrowedPool> theirs = BorrowedPool::map(copy_of(ours->descriptor())).or_throw();
};

void fill(std::span<std::byte> bytes, int value) {
  std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(value));
}

bool holds(std::span<const std::byte> bytes, int value) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [value](std::byte each) { return each == static_cast<std::byte>(value); });
}

// The other side sees the bytes where they were written, and may write there.
TEST(SharedPool, LendsMemoryWithoutACopy) {
  Pools pools;
  Buffer buffer = pools.ours->take(100'000);
  fill(buffer.bytes, 5);
  const Loan loan = pools.ours->lend(buffer.bytes, kPeer).value();
  const Payload seen = pools.theirs->borrow(loan).or_throw();
  EXPECT_EQ(seen.size_bytes(), 100'000u);
  EXPECT_TRUE(holds(seen.bytes(), 5));
  const_cast<std::byte&>(seen.bytes()[3]) = std::byte{9};
  EXPECT_EQ(buffer.bytes[3], std::byte{9});
}

// Random takes, loans, returns on either side and deaths of the borrower, against a model that
// knows what every block holds: memory that somebody still has, here or there, is never given out
// again.
RC_GTEST_PROP(SharedPool, NeverGivesOutMemoryThatSomebodyHas, ()) {
  struct Held {
    Buffer buffer;
    std::optional<Payload> lent;
    int value;
  };
  Pools pools;
  std::vector<Held> held;
  int next_value = 0;
  const auto steps = *rc::gen::container<std::vector<std::pair<int, std::uint32_t>>>(
      rc::gen::pair(rc::gen::inRange(0, 5), rc::gen::arbitrary<std::uint32_t>()));
  for (const auto& [what, number] : steps) {
    Held* one = held.empty() ? nullptr : &held[number % held.size()];
    if (what == 0 || what == 1) {
      Held fresh{pools.ours->take(16'384 + number % 30'000), {}, ++next_value % 256};
      fill(fresh.buffer.bytes, fresh.value);
      held.push_back(std::move(fresh));
    } else if (what == 2 && one && one->buffer.owner && !one->lent) {
      const auto loan = pools.ours->lend(one->buffer.bytes, kPeer);
      RC_ASSERT(loan.has_value());
      RC_ASSERT(!pools.ours->lend(one->buffer.bytes, kPeer).has_value());
      one->lent = pools.theirs->borrow(*loan).or_throw();
    } else if (what == 3 && one) {
      one->buffer = {};
    } else if (what == 4 && one) {
      one->lent.reset();
    }
    std::erase_if(held, [](const Held& each) { return !each.buffer.owner && !each.lent; });
    for (const Held& each : held) {
      if (each.buffer.owner) RC_ASSERT(holds(each.buffer.bytes, each.value));
      if (each.lent) RC_ASSERT(holds(each.lent->bytes(), each.value));
    }
    const auto lent = std::count_if(held.begin(), held.end(),
                                    [](const Held& each) { return each.lent.has_value(); });
    RC_ASSERT(pools.ours->lent() == static_cast<std::size_t>(lent));
  }
}

// A block that both sides have let go of is the next of its size: recycled, not fresh.
TEST(SharedPool, UsesMemoryAgain) {
  Pools pools;
  Buffer first = pools.ours->take(1 << 20);
  const void* memory = first.bytes.data();
  auto lent = pools.theirs->borrow(pools.ours->lend(first.bytes, kPeer).value());
  first = {};
  EXPECT_NE(pools.ours->take(1 << 20).bytes.data(), memory) << "the peer still has it";
  lent = Payload();
  std::vector<Buffer> next{pools.ours->take(1 << 20), pools.ours->take(1 << 20)};
  EXPECT_TRUE(next[0].bytes.data() == memory || next[1].bytes.data() == memory);
}

// The peer's process has died with blocks in hand: they are used again, others' stay lent.
TEST(SharedPool, TakesBackWhatADeadPeerHad) {
  Pools pools;
  Buffer dead = pools.ours->take(1 << 20), living = pools.ours->take(1 << 20);
  ASSERT_TRUE(pools.ours->lend(dead.bytes, kPeer));
  ASSERT_TRUE(pools.ours->lend(living.bytes, kPeer + 1));
  const void* memory = dead.bytes.data();
  dead = living = {};
  pools.ours->reclaim(kPeer);
  EXPECT_EQ(pools.ours->lent(), 1u);
  EXPECT_EQ(pools.ours->take(1 << 20).bytes.data(), memory);
}

// What lies elsewhere, in the middle of a block, or is lent already, is not lent.
TEST(SharedPool, LendsOnlyWholeBlocksOfItsOwn) {
  Pools pools;
  Buffer buffer = pools.ours->take(1 << 20);
  Bytes elsewhere(100);
  EXPECT_FALSE(pools.ours->lend(elsewhere, kPeer));
  EXPECT_FALSE(pools.ours->lend(buffer.bytes.subspan(64), kPeer));
  EXPECT_TRUE(pools.ours->lend(buffer.bytes, kPeer));
  EXPECT_FALSE(pools.ours->lend(buffer.bytes, kPeer));
}

// Loans that nobody made are refused: outside, not lent, beyond the number of blocks.
TEST(SharedPool, RefusesLoansThatNobodyMade) {
  Pools pools;
  Buffer buffer = pools.ours->take(1 << 20);
  const Loan loan = pools.ours->lend(buffer.bytes, kPeer).value();
  for (const Loan& bad :
       {Loan{loan.block + 1, loan.offset, loan.size_bytes}, Loan{~0U, loan.offset, loan.size_bytes},
        Loan{loan.block, 0, 10}, Loan{loan.block, ~std::uint64_t{0}, 10},
        Loan{loan.block, loan.offset, ~std::uint64_t{0}}}) {
    EXPECT_EQ(pools.theirs->borrow(bad).code(), Code::corrupt);
  }
}

// Memory that could be cut off under its reader, or is of another size, is not mapped.
TEST(SharedMemory, RefusesWhatIsNotSealedOrOfAnotherSize) {
  const SharedMemory memory = SharedMemory::make("test", 8192, false).or_throw();
  EXPECT_TRUE(SharedMemory::map(copy_of(memory.descriptor()), 8192, false).ok());
  EXPECT_EQ(SharedMemory::map(copy_of(memory.descriptor()), 4096, false).code(), Code::corrupt);
  EXPECT_EQ(SharedMemory::map(copy_of(::open("/dev/null", O_RDONLY)), 0, false).code(),
            Code::corrupt);
}

}  // namespace
}  // namespace rehearse::real
