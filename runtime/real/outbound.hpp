#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/base/ids.hpp"
#include "runtime/real/channel.hpp"
#include "runtime/world/delivery.hpp"
#include "runtime/world/frame.hpp"

namespace rehearse::real {

/// Turns what a `Delivery` wants sent into frames, a batch at a time, and writes each batch at once
/// to a channel. Control goes first; a bulk message goes in segments, so that control waits for one
/// batch at most. Where the channel can lend memory to the peer, a large payload is put there step
/// by step, unless it is there already, and one frame says where it lies.
class Outbound {
 public:
  Outbound(std::uint64_t job, std::uint32_t generation) : job_(job), generation_(generation) {}

  /// A frame that is no message (greeting, refusal); goes before all else.
  void push(FrameType type, const Acks& acks, std::span<const std::byte> body = {});
  /// After all messages of both lanes, `farewell` goes out and nothing follows.
  void say_farewell() { farewell_ = Farewell::wanted; }
  /// An acknowledgement goes out alone, if nothing carries it.
  void acknowledge() { ack_wanted_ = true; }

  enum class Result { drained, more, blocked, broken };
  /// Writes until everything is written, the channel takes no more, or a turn's worth is written
  /// (`more`: a fast reader must not keep the worker in here). `delivery` may be null: not
  /// greeted yet.
  Result write(Channel& channel, Delivery* delivery, Time now);

  /// Everything that was to be sent is with the kernel, the farewell too.
  bool said_farewell() const { return farewell_ == Farewell::said && pieces_.empty(); }
  bool idle() const { return pieces_.empty(); }
  /// Last message of each lane that was written whole: no acknowledgement can be above it.
  const Acks& written() const { return written_; }
  /// The peer has said that it has these from an earlier connection.
  void already_has(const Acks& acks) { written_ = acks; }

 private:
  enum class Farewell { none, wanted, said };
  // A message whose payloads are under way in segments.
  struct Stream {
    const Outgoing* message = nullptr;
    std::size_t payload = 0;
    std::size_t position = 0;
    std::uint64_t offset = 0;
    Buffer copy;  // of the payload, to be lent
    std::size_t copied = 0;
  };

  bool fill(Delivery* delivery, Time now);
  bool fill_lane(Lane lane, Delivery& delivery, Time now);
  bool has_room() const;
  void put_message(Lane lane, const Outgoing& outgoing, const Acks& acks);
  void put_part(Lane lane, Stream& stream, const Acks& acks);
  void put_segment(Lane lane, Stream& stream, const Acks& acks);
  bool put_loan(Lane lane, Stream& stream, const Acks& acks);
  std::optional<Loan> loan_of(const Payload& payload, Stream& stream);
  void advance(Lane lane, Stream& stream, std::size_t size_bytes);
  void put_bare(FrameType type, const Acks& acks, std::span<const std::byte> body);
  void put_prelude(Prelude prelude);
  void put_copy(std::span<const std::byte> bytes);
  void put_span(std::span<const std::byte> bytes);
  Prelude prelude(FrameType type, Lane lane, const Acks& acks) const;
  void written(std::size_t size_bytes);

  static constexpr std::size_t kTurnBytes = std::size_t{2} << 20;
  static constexpr std::size_t kCopyStepBytes = std::size_t{1} << 20;
  static constexpr std::size_t kScratchBytes = std::size_t{64} << 10;
  static constexpr std::size_t kPiecesMax = 64;
  static constexpr std::size_t kCopiedBytesMax = 2048;

  std::uint64_t job_;
  std::uint32_t generation_;
  Bytes urgent_;  // encoded frames that go first
  std::array<Stream, kLanes> streams_{};
  bool ack_wanted_ = false;
  Farewell farewell_ = Farewell::none;
  Lending* lending_ = nullptr;  // of the channel that is being written to

  // The batch that is being written; its pieces point into scratch_, owned_ and messages that are
  // not acknowledged, which stay where they are.
  std::unique_ptr<std::byte[]> scratch_ = std::make_unique<std::byte[]>(kScratchBytes);
  std::size_t scratch_used_ = 0;
  std::deque<Bytes> owned_;
  std::vector<iovec> pieces_;
  std::size_t first_piece_ = 0;
  std::size_t batch_bytes_ = 0;
  std::size_t copied_bytes_ = 0;  // to lendable memory, in this batch
  Acks batch_last_{};
  Acks written_{};
};

}  // namespace rehearse::real
