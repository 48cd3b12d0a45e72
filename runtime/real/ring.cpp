#include "runtime/real/ring.hpp"

#include <algorithm>
#include <cstring>

namespace rehearse::real {
namespace {

// Who goes to sleep says so and then looks once more; who has moved a position looks then whether
// the other sleeps. With a full fence between both steps on both sides, one of them sees the other.
bool must_wake(std::atomic<std::uint32_t>& sleeps) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return sleeps.load(std::memory_order_relaxed) != 0 &&
         sleeps.exchange(0, std::memory_order_acq_rel) != 0;
}

void fall_asleep(std::atomic<std::uint32_t>& sleeps) {
  sleeps.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

// Calls `move(in the ring, in the piece, size)` for each contiguous part, from `position` on.
template <class Byte, class Move>
std::size_t each_part(std::span<Byte> ring, std::uint64_t position, std::size_t size_max,
                      std::span<const iovec> pieces, Move move) {
  std::size_t moved = 0;
  for (const iovec& piece : pieces) {
    auto* memory = static_cast<std::byte*>(piece.iov_base);
    for (std::size_t left = std::min(piece.iov_len, size_max - moved); left > 0;) {
      const std::size_t at = (position + moved) & (ring.size() - 1);
      const std::size_t part = std::min(left, ring.size() - at);
      move(ring.data() + at, memory, part);
      memory += part;
      moved += part;
      left -= part;
    }
    if (moved == size_max) break;
  }
  return moved;
}

}  // namespace

std::size_t RingWriter::room() const {
  const std::uint64_t used = state_->written.load(std::memory_order_relaxed) -
                             state_->taken.load(std::memory_order_acquire);
  return used <= bytes_.size() ? bytes_.size() - used : 0;
}

std::size_t RingWriter::write(std::span<const iovec> pieces) {
  const std::uint64_t position = state_->written.load(std::memory_order_relaxed);
  const std::size_t moved = each_part(
      bytes_, position, room(), pieces,
      [](std::byte* ring, std::byte* piece, std::size_t size) { std::memcpy(ring, piece, size); });
  state_->written.store(position + moved, std::memory_order_release);
  return moved;
}

bool RingWriter::reader_must_wake() { return must_wake(state_->reader_sleeps); }

bool RingWriter::sleep() {
  fall_asleep(state_->writer_sleeps);
  return room() == 0;
}

std::size_t RingReader::available() const {
  return state_->written.load(std::memory_order_acquire) -
         state_->taken.load(std::memory_order_relaxed);
}

std::size_t RingReader::read(std::span<const iovec> pieces) {
  const std::uint64_t position = state_->taken.load(std::memory_order_relaxed);
  const std::size_t moved =
      each_part(bytes_, position, std::min(available(), bytes_.size()), pieces,
                [](const std::byte* ring, std::byte* piece, std::size_t size) {
                  std::memcpy(piece, ring, size);
                });
  state_->taken.store(position + moved, std::memory_order_release);
  return moved;
}

bool RingReader::writer_must_wake() { return must_wake(state_->writer_sleeps); }

bool RingReader::sleep() {
  fall_asleep(state_->reader_sleeps);
  return available() == 0;
}

}  // namespace rehearse::real
