#include "runtime/real/ring.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/random.hpp"

namespace rehearse::real {
namespace {

struct Ring {
  explicit Ring(std::size_t size_bytes) : bytes(size_bytes) {}
  RingState state;
  Bytes bytes;
  RingWriter writer{state, bytes};
  RingReader reader{state, bytes};
};

iovec piece_of(Bytes& bytes) { return {bytes.data(), bytes.size()}; }

Bytes random_bytes(std::size_t size_bytes, std::uint64_t seed) {
  Bytes bytes(size_bytes);
  Random random(seed);
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random()); });
  return bytes;
}

// Any sequence of writes and reads, each of several pieces of any size (none, and more than the
// ring holds): what comes out is what went in, each end takes as much as there is room or content
// for, and the counts agree with a model that is a plain sequence.
RC_GTEST_PROP(Ring, IsAStreamOfItsBytes, ()) {
  Ring ring(64);
  Bytes in, out;
  const auto steps = *rc::gen::container<std::vector<std::vector<std::uint8_t>>>(rc::gen::resize(
      8, rc::gen::container<std::vector<std::uint8_t>>(rc::gen::inRange<std::uint8_t>(0, 100))));
  bool writes = true;
  for (const auto& sizes : steps) {
    std::vector<Bytes> memory;
    std::size_t asked = 0;
    for (const std::uint8_t size : sizes) {
      memory.push_back(random_bytes(size, in.size() + asked));
      asked += size;
    }
    std::vector<iovec> pieces;
    for (Bytes& each : memory) pieces.push_back(piece_of(each));
    Bytes joined;
    const std::size_t before = in.size() - out.size();
    if (writes) {
      const std::size_t moved = ring.writer.write(pieces);
      RC_ASSERT(moved == std::min(asked, 64 - before));
      for (const Bytes& each : memory) joined.insert(joined.end(), each.begin(), each.end());
      in.insert(in.end(), joined.begin(), joined.begin() + static_cast<std::ptrdiff_t>(moved));
    } else {
      const std::size_t moved = ring.reader.read(pieces);
      RC_ASSERT(moved == std::min(asked, before));
      for (const Bytes& each : memory) joined.insert(joined.end(), each.begin(), each.end());
      out.insert(out.end(), joined.begin(), joined.begin() + static_cast<std::ptrdiff_t>(moved));
    }
    RC_ASSERT(ring.reader.available() == in.size() - out.size());
    RC_ASSERT(ring.writer.room() == 64 - ring.reader.available());
    RC_ASSERT(std::equal(out.begin(), out.end(), in.begin()));
    writes = !writes;
  }
}

// Two threads, a ring much smaller than what passes through it. Each end sleeps when it can do
// nothing, and is woken only if the other is told that it must: a wake-up that is lost hangs the
// test.
TEST(Ring, WakesWhoSleepsOnEitherEnd) {
  constexpr std::size_t kBytes = 300'000;
  Ring ring(256);
  Bytes sent = random_bytes(kBytes, 1);
  Bytes received(kBytes);
  std::atomic<int> reader_bell{0}, writer_bell{0};
  const auto ring_bell = [](std::atomic<int>& bell) {
    ++bell;
    bell.notify_one();
  };
  std::thread writer([&] {
    Random random(2);
    for (std::size_t at = 0; at < kBytes;) {
      const int seen = writer_bell;
      const iovec piece{sent.data() + at, std::min<std::size_t>(random() % 400, kBytes - at)};
      const std::size_t moved = ring.writer.write({&piece, 1});
      at += moved;
      if (moved > 0 && ring.writer.reader_must_wake()) ring_bell(reader_bell);
      if (moved == 0 && ring.writer.sleep()) writer_bell.wait(seen);
    }
  });
  for (std::size_t at = 0; at < kBytes;) {
    const int seen = reader_bell;
    const iovec piece{received.data() + at, kBytes - at};
    const std::size_t moved = ring.reader.read({&piece, 1});
    at += moved;
    if (moved > 0 && ring.reader.writer_must_wake()) ring_bell(writer_bell);
    if (moved == 0 && ring.reader.sleep()) reader_bell.wait(seen);
  }
  writer.join();
  EXPECT_EQ(received, sent);
}

// Positions that no writer can have left (another program's memory, a broken peer) are noticed.
TEST(Ring, NoticesPositionsThatMakeNoSense) {
  Ring ring(64);
  EXPECT_FALSE(ring.reader.damaged());
  ring.state.written = 65;
  EXPECT_TRUE(ring.reader.damaged());
  ring.state.written = 10;
  ring.state.taken = 11;
  EXPECT_TRUE(ring.reader.damaged());
  EXPECT_EQ(ring.writer.room(), 0u);
}

}  // namespace
}  // namespace rehearse::real
