#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"
#include "runtime/world/delivery.hpp"
#include "runtime/world/message.hpp"

namespace rehearse {

// The unit of the wire: a prelude of fixed size, then a body of a stated size. Little-endian.
// A message is one `message` frame with its header and, if its payloads are small, those too;
// otherwise the payloads follow in `segment` frames of the same lane. Frames of the other lane may
// come between them, so control overtakes a bulk message that is under way.

inline constexpr std::uint32_t kFrameMagic = 0x31524852;  // "RHR1"
inline constexpr std::uint16_t kFrameVersion = 1;
inline constexpr std::size_t kPreludeBytes = 80;

/// What a frame may claim at most; a sender refuses a message beyond it.
inline constexpr std::size_t kBodyBytesMax = std::size_t{64} << 20;
inline constexpr std::size_t kPayloadsMax = std::size_t{1} << 20;
inline constexpr std::uint64_t kMessageBytesMax = std::uint64_t{1} << 46;

/// Payloads of at most this much in sum travel inside the `message` frame.
inline constexpr std::size_t kInlineBytesMax = std::size_t{16} << 10;
/// A `segment` carries at most this much, of one payload: how long control waits for bulk.
inline constexpr std::size_t kSegmentBytesMax = std::size_t{128} << 10;

enum class FrameType : std::uint8_t {
  hello,     ///< who dials whom, and what it has received; see `Hello`
  welcome,   ///< the answer: the same
  message,   ///< see `Lead`
  segment,   ///< the next bytes of the payloads of the lane's message
  ack,       ///< acknowledgements alone
  farewell,  ///< the sender's endpoint ends; nothing follows
  refusal,   ///< a code and a sentence; nothing follows
  loan,      ///< the next payload of the lane's message lies in memory that both sides see
};
inline constexpr int kFrameTypes = static_cast<int>(FrameType::loan) + 1;

struct Prelude {
  FrameType type{};
  Lane lane{};
  MessageKind kind{};     ///< of `message`
  std::uint64_t job = 0;  ///< two jobs never mix, whatever port they meet on
  std::uint32_t generation = 0;
  std::uint64_t sequence = 0;  ///< of `message`, `segment` and `loan`
  Acks acks{};                 ///< what the sender has received
  std::uint64_t lamport = 0;   ///< of `message`
  std::uint64_t offset =
      0;  ///< of `segment` and `loan`: where it starts in all payloads put together
  std::uint32_t body_bytes = 0;
  std::uint32_t body_crc = 0;  ///< CRC-32C of the body

  bool operator==(const Prelude&) const = default;
};

std::array<std::byte, kPreludeBytes> encode(const Prelude& prelude);

/// Fails with `corrupt` for what is not a prelude of this version, is damaged, or claims more than
/// the bounds allow; the message says what was expected. REQUIRES: kPreludeBytes bytes.
Result<Prelude> decode_prelude(std::span<const std::byte> bytes);

/// Whether a frame may be listened to: `stale_generation` for an older generation than
/// `generation`, `bad_argument` for another job.
Status admit(const Prelude& prelude, std::uint64_t job, std::uint32_t generation);

/// Fails with `corrupt` if `body` is not what the prelude's checksum was taken of.
Status check_body(const Prelude& prelude, std::span<const std::byte> body);

/// The body of `hello` and `welcome`. Job and generation are those of the prelude.
struct Hello {
  Address from;
  Address to;
};
Bytes encode(const Hello& hello);
Result<Hello> decode_hello(const Prelude& prelude, std::span<const std::byte> body);

Bytes encode_refusal(const Failure& failure);
Failure decode_refusal(std::span<const std::byte> body);

/// The body of `loan`: where a payload lies in the memory that the sender lends.
struct Loan {
  std::uint32_t block = 0;
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
};
Bytes encode(const Loan& loan);
Result<Loan> decode_loan(std::span<const std::byte> body);

/// The start of the body of `message`: sizes, then the header, then the payloads if they are
/// inline.
struct Lead {
  std::span<const std::byte> header;
  std::vector<std::uint64_t> payload_sizes;
  std::span<const std::byte> inline_payloads;  ///< all of them, one after the other
  std::uint64_t payload_bytes = 0;             ///< the sum of `payload_sizes`
  bool is_inline() const { return payload_bytes <= kInlineBytesMax; }
};

/// Fails with `bad_argument` for a message beyond the bounds.
Status check_bounds(const Message& message);
/// The part of a `message` body before the header. REQUIRES: within the bounds.
void append_sizes(const Message& message, Bytes& to);
std::uint64_t payload_bytes(const Message& message);
/// The spans point into `body`.
Result<Lead> decode_lead(std::span<const std::byte> body);

/// A whole frame in one buffer: for small ones, and for tests.
Bytes encode_frame(Prelude prelude, std::span<const std::byte> body);

}  // namespace rehearse
