#include "runtime/world/frame.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/check.hpp"
#include "runtime/base/codec.hpp"
#include "runtime/base/crc32c.hpp"

namespace rehearse {
namespace {

// The last field of a prelude is the checksum of what stands before it.
constexpr std::size_t kPreludeCrcAt = kPreludeBytes - sizeof(std::uint32_t);

Failure corrupt(std::string message) { return {Code::corrupt, std::move(message), {}, 0}; }

std::uint64_t body_bytes_max(FrameType type) {
  switch (type) {
    case FrameType::message:
      return kBodyBytesMax;
    case FrameType::segment:
      return kSegmentBytesMax;
    case FrameType::ack:
    case FrameType::farewell:
      return 0;
    default:
      return 64 << 10;
  }
}

void put_address(Writer& writer, const Address& address) {
  writer.put(address.worker);
  writer.put(address.endpoint);
  writer.put(address.incarnation);
}

Address get_address(Reader& reader, const Prelude& prelude) {
  Address address;
  address.job = prelude.job;
  address.generation = prelude.generation;
  address.worker = reader.get<std::uint16_t>();
  address.endpoint = reader.get<std::uint16_t>();
  address.incarnation = reader.get<std::uint32_t>();
  return address;
}

Status check_closed_sets(std::uint8_t type, std::uint8_t lane, std::uint8_t kind) {
  if (type >= kFrameTypes) return corrupt(fmt::format("frame type {} does not exist", type));
  if (lane >= kLanes) return corrupt(fmt::format("lane {} does not exist", lane));
  if (kind >= kMessageKinds) return corrupt(fmt::format("message kind {} does not exist", kind));
  return {};
}

}  // namespace

std::array<std::byte, kPreludeBytes> encode(const Prelude& prelude) {
  std::array<std::byte, kPreludeBytes> bytes{};
  std::byte* at = bytes.data();
  const auto put = [&at](auto value) {
    std::memcpy(at, &value, sizeof value);
    at += sizeof value;
  };
  put(kFrameMagic);
  put(kFrameVersion);
  put(static_cast<std::uint8_t>(prelude.type));
  put(static_cast<std::uint8_t>(prelude.lane));
  put(prelude.job);
  put(prelude.generation);
  put(static_cast<std::uint32_t>(prelude.kind));
  put(prelude.sequence);
  for (const std::uint64_t ack : prelude.acks) put(ack);
  put(prelude.lamport);
  put(prelude.offset);
  put(prelude.body_bytes);
  put(prelude.body_crc);
  put(std::uint32_t{0});
  put(crc32c(std::span(bytes).first(kPreludeCrcAt)));
  return bytes;
}

Result<Prelude> decode_prelude(std::span<const std::byte> bytes) {
  REHEARSE_CHECK(bytes.size() >= kPreludeBytes, "half a prelude");
  bytes = bytes.first(kPreludeBytes);
  Reader reader(bytes);
  if (const auto magic = reader.get<std::uint32_t>(); magic != kFrameMagic) {
    return corrupt(fmt::format("expected a frame that starts with {:#010x}, got {:#010x}",
                               kFrameMagic, magic));
  }
  if (const auto version = reader.get<std::uint16_t>(); version != kFrameVersion) {
    return corrupt(fmt::format("the peer speaks version {} of the wire format; this program, {}",
                               version, kFrameVersion));
  }
  Reader crc_reader(bytes.subspan(kPreludeCrcAt));
  if (crc_reader.get<std::uint32_t>() != crc32c(bytes.first(kPreludeCrcAt))) {
    return corrupt("the checksum of a frame's prelude is wrong");
  }
  const auto type = reader.get<std::uint8_t>();
  const auto lane = reader.get<std::uint8_t>();
  Prelude prelude;
  prelude.job = reader.get<std::uint64_t>();
  prelude.generation = reader.get<std::uint32_t>();
  const auto kind = reader.get<std::uint32_t>();
  const auto short_kind = static_cast<std::uint8_t>(std::min<std::uint32_t>(kind, 0xff));
  if (Status status = check_closed_sets(type, lane, short_kind); !status.ok()) {
    return status.failure();
  }
  prelude.type = static_cast<FrameType>(type);
  prelude.lane = static_cast<Lane>(lane);
  prelude.kind = static_cast<MessageKind>(short_kind);
  prelude.sequence = reader.get<std::uint64_t>();
  for (std::uint64_t& ack : prelude.acks) ack = reader.get<std::uint64_t>();
  prelude.lamport = reader.get<std::uint64_t>();
  prelude.offset = reader.get<std::uint64_t>();
  prelude.body_bytes = reader.get<std::uint32_t>();
  prelude.body_crc = reader.get<std::uint32_t>();
  if (prelude.body_bytes > body_bytes_max(prelude.type)) {
    return corrupt(
        fmt::format("a frame of type {} claims a body of {} bytes; at most {} are allowed", type,
                    prelude.body_bytes, body_bytes_max(prelude.type)));
  }
  return prelude;
}

Status admit(const Prelude& prelude, std::uint64_t job, std::uint32_t generation) {
  if (prelude.job != job) {
    return Failure{
        Code::bad_argument,
        fmt::format("expected a peer of job {:016x}, got one of job {:016x}", job, prelude.job),
        {},
        0};
  }
  if (prelude.generation < generation) {
    return Failure{
        Code::stale_generation,
        fmt::format("generation {} is over; this is generation {}", prelude.generation, generation),
        {},
        0};
  }
  return {};
}

Status check_body(const Prelude& prelude, std::span<const std::byte> body) {
  if (body.size() != prelude.body_bytes || crc32c(body) != prelude.body_crc) {
    return corrupt("the checksum of a frame's body is wrong");
  }
  return {};
}

Bytes encode(const Hello& hello) {
  Bytes body;
  Writer writer(body);
  put_address(writer, hello.from);
  put_address(writer, hello.to);
  return body;
}

Result<Hello> decode_hello(const Prelude& prelude, std::span<const std::byte> body) {
  Reader reader(body);
  Hello hello;
  hello.from = get_address(reader, prelude);
  hello.to = get_address(reader, prelude);
  if (reader.failed() || reader.left() != 0) return corrupt("a greeting has the wrong size");
  return hello;
}

Bytes encode(const Loan& loan) {
  Bytes body;
  Writer writer(body);
  writer.put(loan.block);
  writer.put(loan.offset);
  writer.put(loan.size_bytes);
  return body;
}

Result<Loan> decode_loan(std::span<const std::byte> body) {
  Reader reader(body);
  Loan loan;
  loan.block = reader.get<std::uint32_t>();
  loan.offset = reader.get<std::uint64_t>();
  loan.size_bytes = reader.get<std::uint64_t>();
  if (reader.failed() || reader.left() != 0) return corrupt("a loan has the wrong size");
  return loan;
}

Bytes encode_refusal(const Failure& failure) {
  Bytes body;
  Writer writer(body);
  writer.put(failure.code);
  writer.put_text(failure.message.substr(0, 1024));
  return body;
}

Failure decode_refusal(std::span<const std::byte> body) {
  Reader reader(body);
  const auto code = reader.get<std::uint8_t>();
  std::string message(reader.get_text());
  if (reader.failed() || code >= kCodes) return corrupt("a refusal cannot be read");
  return {static_cast<Code>(code), std::move(message), {}, 0};
}

std::uint64_t payload_bytes(const Message& message) {
  return message.size_bytes() - message.header.size();
}

Status check_bounds(const Message& message) {
  const std::size_t table_bytes = 8 + 8 * message.payloads.size();
  if (message.payloads.size() <= kPayloadsMax && message.size_bytes() <= kMessageBytesMax &&
      message.header.size() + table_bytes + kInlineBytesMax <= kBodyBytesMax) {
    return {};
  }
  return Failure{
      Code::bad_argument,
      fmt::format("a message of {} header bytes and {} payloads of {} bytes is beyond what a wire "
                  "carries ({} header bytes, {} payloads, {} bytes)",
                  message.header.size(), message.payloads.size(), payload_bytes(message),
                  kBodyBytesMax, kPayloadsMax, kMessageBytesMax),
      {},
      0};
}

void append_sizes(const Message& message, Bytes& to) {
  Writer writer(to);
  writer.put(static_cast<std::uint32_t>(message.header.size()));
  writer.put(static_cast<std::uint32_t>(message.payloads.size()));
  for (const Payload& payload : message.payloads) {
    writer.put(static_cast<std::uint64_t>(payload.size_bytes()));
  }
}

Result<Lead> decode_lead(std::span<const std::byte> body) {
  Reader reader(body);
  const auto header_bytes = reader.get<std::uint32_t>();
  const auto payloads = reader.get<std::uint32_t>();
  if (reader.failed() || payloads > kPayloadsMax || payloads > reader.left() / 8) {
    return corrupt(fmt::format("a message claims {} payloads in {} bytes", payloads, body.size()));
  }
  Lead lead;
  lead.payload_sizes.reserve(payloads);
  for (std::uint32_t i = 0; i < payloads; ++i) {
    const auto size = reader.get<std::uint64_t>();
    if (size > kMessageBytesMax - lead.payload_bytes) {
      return corrupt(fmt::format("a message claims a payload of {} bytes", size));
    }
    lead.payload_bytes += size;
    lead.payload_sizes.push_back(size);
  }
  const std::uint64_t inline_bytes = lead.is_inline() ? lead.payload_bytes : 0;
  if (reader.left() != header_bytes + inline_bytes) {
    return corrupt(fmt::format("a message claims {} + {} bytes, and {} follow", header_bytes,
                               inline_bytes, reader.left()));
  }
  lead.header = body.subspan(reader.position(), header_bytes);
  lead.inline_payloads = body.subspan(reader.position() + header_bytes);
  return lead;
}

Bytes encode_frame(Prelude prelude, std::span<const std::byte> body) {
  prelude.body_bytes = static_cast<std::uint32_t>(body.size());
  prelude.body_crc = crc32c(body);
  const auto head = encode(prelude);
  Bytes frame(kPreludeBytes + body.size());
  std::copy(body.begin(), body.end(), std::copy(head.begin(), head.end(), frame.begin()));
  return frame;
}

}  // namespace rehearse
