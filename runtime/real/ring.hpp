#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rehearse::real {

/// What the two ends of a ring share beside its bytes. Lies in memory that both have mapped; each
/// word on a cache line of its own, because different processes write them.
struct RingState {
  alignas(64) std::atomic<std::uint64_t> written{0};  ///< bytes ever put in
  alignas(64) std::atomic<std::uint64_t> taken{0};    ///< bytes ever taken out
  alignas(64) std::atomic<std::uint32_t> reader_sleeps{0};
  alignas(64) std::atomic<std::uint32_t> writer_sleeps{0};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// The writing end of a stream of bytes through a ring. What was put in stays readable if the
/// writer dies: a position is published after its bytes.
class RingWriter {
 public:
  /// REQUIRES: the size of `bytes` is a power of two, the same at both ends.
  RingWriter(RingState& state, std::span<std::byte> bytes) : state_(&state), bytes_(bytes) {}

  /// Puts in as much of `pieces` as fits, and says how much.
  std::size_t write(std::span<const iovec> pieces);
  std::size_t room() const;

  /// The reader sleeps and must be woken; asked after a write, and true once a sleep.
  bool reader_must_wake();
  /// Asks to be woken when there is room. False if there is some already.
  bool sleep();

 private:
  RingState* state_;
  std::span<std::byte> bytes_;
};

/// The reading end.
class RingReader {
 public:
  RingReader(RingState& state, std::span<const std::byte> bytes) : state_(&state), bytes_(bytes) {}

  /// Takes out what fits into `pieces`, and says how much.
  std::size_t read(std::span<const iovec> pieces);
  std::size_t available() const;
  /// The positions make no sense: the other end is not what it says.
  bool damaged() const { return available() > bytes_.size(); }

  /// The writer waits for room and must be woken; asked after a read, and true once a sleep.
  bool writer_must_wake();
  /// Asks to be woken when there is something to read. False if there is already.
  bool sleep();
  void wake() { state_->reader_sleeps.store(0, std::memory_order_relaxed); }

 private:
  RingState* state_;
  std::span<const std::byte> bytes_;
};

}  // namespace rehearse::real
