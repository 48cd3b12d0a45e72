#include "runtime/world/frame.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/crc32c.hpp"
#include "runtime/base/random.hpp"

namespace rehearse {
namespace {

Prelude any_prelude(Random& random) {
  Prelude prelude;
  prelude.type = FrameType::message;
  prelude.lane = static_cast<Lane>(random.below(kLanes));
  prelude.kind = static_cast<MessageKind>(random.below(kMessageKinds));
  prelude.job = random();
  prelude.generation = static_cast<std::uint32_t>(random());
  prelude.sequence = random();
  prelude.acks = {random(), random()};
  prelude.lamport = random();
  prelude.offset = random();
  return prelude;
}

Message any_message(Random& random, std::size_t payload_bytes_each) {
  Message message;
  message.header.resize(random.below(200), std::byte{7});
  for (std::uint64_t i = random.below(4); i > 0; --i) {
    auto bytes = std::make_shared<Bytes>(random.below(payload_bytes_each + 1));
    for (std::byte& byte : *bytes) byte = static_cast<std::byte>(random());
    message.payloads.emplace_back(bytes, *bytes);
  }
  return message;
}

Bytes body_of(const Message& message) {
  Bytes body;
  append_sizes(message, body);
  body.insert(body.end(), message.header.begin(), message.header.end());
  if (payload_bytes(message) > kInlineBytesMax) return body;
  for (const Payload& payload : message.payloads) {
    body.insert(body.end(), payload.bytes().begin(), payload.bytes().end());
  }
  return body;
}

// What a receiver does with a buffer: the message if, and only if, every check passes.
std::optional<std::pair<Prelude, Bytes>> read(std::span<const std::byte> wire) {
  if (wire.size() < kPreludeBytes) return std::nullopt;
  const auto prelude = decode_prelude(wire);
  if (!prelude.ok()) return std::nullopt;
  const auto body = wire.subspan(kPreludeBytes);
  if (body.size() < prelude.value().body_bytes) return std::nullopt;
  const auto exact = body.first(prelude.value().body_bytes);
  if (!check_body(prelude.value(), exact).ok()) return std::nullopt;
  if (prelude.value().type == FrameType::message && !decode_lead(exact).ok()) return std::nullopt;
  return std::pair(prelude.value(), Bytes(exact.begin(), exact.end()));
}

// Encoded and decoded again, every field and byte is the same.
RC_GTEST_PROP(Frame, RoundTripKeepsEveryField, (std::uint64_t seed)) {
  Random random(seed);
  const Message message = any_message(random, 3000);
  Prelude prelude = any_prelude(random);
  const Bytes wire = encode_frame(prelude, body_of(message));
  const auto back = read(wire);
  RC_ASSERT(back.has_value());
  prelude.body_bytes = back->first.body_bytes;
  prelude.body_crc = back->first.body_crc;
  RC_ASSERT(back->first == prelude);
  const auto lead = decode_lead(back->second);
  RC_ASSERT(lead.ok());
  RC_ASSERT(Bytes(lead.value().header.begin(), lead.value().header.end()) == message.header);
  RC_ASSERT(lead.value().payload_sizes.size() == message.payloads.size());
  RC_ASSERT(lead.value().inline_payloads.size() == payload_bytes(message));
}

// Any few bytes changed anywhere: refused, never a crash and never another message.
RC_GTEST_PROP(Frame, AChangedByteNeverYieldsAMessage, (std::uint64_t seed)) {
  Random random(seed);
  Bytes wire = encode_frame(any_prelude(random), body_of(any_message(random, 500)));
  const Bytes before = wire;
  for (std::uint64_t changes = 1 + random.below(4); changes > 0; --changes) {
    wire[random.below(wire.size())] ^= static_cast<std::byte>(1 + random.below(255));
  }
  if (wire != before) RC_ASSERT(!read(wire).has_value());
}

// Cut off anywhere: refused.
RC_GTEST_PROP(Frame, ATruncatedFrameNeverYieldsAMessage, (std::uint64_t seed)) {
  Random random(seed);
  const Bytes wire = encode_frame(any_prelude(random), body_of(any_message(random, 500)));
  RC_ASSERT(!read(std::span(wire).first(random.below(wire.size()))).has_value());
}

// A body that has the right checksum and is nonsense: counts are bounded by what follows, so
// nothing is allocated on its word, and nothing is read past the end.
RC_GTEST_PROP(Frame, NonsenseWithAGoodChecksumIsBounded, (std::uint64_t seed)) {
  Random random(seed);
  Bytes body(random.below(300));
  for (std::byte& byte : body) byte = static_cast<std::byte>(random.chance(0.7) ? 0 : random());
  const auto lead = decode_lead(body);
  if (lead.ok()) {
    RC_ASSERT(lead.value().payload_sizes.size() <= body.size() / 8);
    RC_ASSERT(lead.value().header.size() <= body.size());
  }
  Prelude prelude;
  (void)decode_hello(prelude, body);
  (void)decode_refusal(body);
  (void)decode_loan(body);
}

// The fast ways of taking the checksum agree with its definition, bit by bit, at every length that
// they treat differently.
TEST(Frame, TheChecksumIsCrc32C) {
  const auto by_definition = [](std::span<const std::byte> bytes) {
    std::uint32_t crc = ~std::uint32_t{0};
    for (const std::byte byte : bytes) {
      crc ^= static_cast<std::uint32_t>(byte);
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78U : 0);
    }
    return ~crc;
  };
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283U);
  Random random(1);
  Bytes bytes(20'000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (const std::size_t size : {1, 7, 8, 1024, 3071, 3072, 3073, 6144, 20'000}) {
    const auto part = std::span<const std::byte>(bytes).first(size);
    EXPECT_EQ(crc32c(part), by_definition(part)) << size;
    EXPECT_EQ(crc32c(part.subspan(size / 3), crc32c(part.first(size / 3))), crc32c(part)) << size;
  }
}

// Not a frame at all, and a frame of another version, are told apart in words.
TEST(Frame, ErrorsSayWhatWasExpectedAndWhatCame) {
  const Bytes http = bytes_of(std::string("GET / HTTP/1.1\r\n") + std::string(100, ' '));
  EXPECT_EQ(decode_prelude(http).failure().message,
            "expected a frame that starts with 0x31524852, got 0x20544547");
  Bytes other = encode_frame({}, {});
  other[4] = std::byte{9};
  EXPECT_EQ(decode_prelude(other).failure().message,
            "the peer speaks version 9 of the wire format; this program, 1");
}

// A well-formed frame that claims a body beyond the bounds is refused before anything is allocated.
TEST(Frame, ABodyBeyondTheBoundsIsRefused) {
  Prelude prelude;
  prelude.type = FrameType::segment;
  prelude.body_bytes = kSegmentBytesMax + 1;
  EXPECT_EQ(decode_prelude(encode(prelude)).code(), Code::corrupt);
  prelude.body_bytes = kSegmentBytesMax;
  EXPECT_TRUE(decode_prelude(encode(prelude)).ok());
}

// Two jobs on one port do not mix; an older generation is refused, a newer one is let in.
TEST(Frame, OnlyTheOwnJobAndNoOlderGenerationAreAdmitted) {
  Prelude prelude;
  prelude.job = 1;
  prelude.generation = 3;
  EXPECT_TRUE(admit(prelude, 1, 3).ok());
  EXPECT_TRUE(admit(prelude, 1, 2).ok());
  EXPECT_EQ(admit(prelude, 1, 4).code(), Code::stale_generation);
  EXPECT_EQ(admit(prelude, 2, 3).code(), Code::bad_argument);
}

// Payloads of more than 4 GiB are described exactly; nothing of that size is allocated here.
TEST(Frame, SizesBeyondFourGibibytesAreKept) {
  Message message;
  const std::byte* nothing = nullptr;
  message.payloads.emplace_back(nullptr, std::span(nothing, std::size_t{5} << 30));
  message.payloads.emplace_back(nullptr, std::span(nothing, std::size_t{1}));
  ASSERT_TRUE(check_bounds(message).ok());
  const Bytes body = body_of(message);
  const auto lead = decode_lead(body);
  ASSERT_TRUE(lead.ok());
  EXPECT_EQ(lead.value().payload_sizes, (std::vector<std::uint64_t>{std::uint64_t{5} << 30, 1}));
  EXPECT_FALSE(lead.value().is_inline());
}

// Greetings, refusals and loans come back as they were.
TEST(Frame, GreetingsRefusalsAndLoansRoundTrip) {
  Prelude prelude;
  prelude.job = 5;
  prelude.generation = 2;
  const Hello hello{{5, 2, 3, 1, 7}, {5, 2, 4, 0, 8}};
  const auto back = decode_hello(prelude, encode(hello));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back.value().from, hello.from);
  EXPECT_EQ(back.value().to, hello.to);
  const Failure failure{Code::stale_generation, "generation 1 is over", {}, 0};
  EXPECT_EQ(decode_refusal(encode_refusal(failure)).code, failure.code);
  EXPECT_EQ(decode_refusal(encode_refusal(failure)).message, failure.message);
  const Bytes lent = encode(Loan{3, 1 << 21, 70'000});
  const Loan loan = decode_loan(lent).or_throw();
  EXPECT_EQ(loan.block, 3U);
  EXPECT_EQ(loan.offset, std::uint64_t{1} << 21);
  EXPECT_EQ(loan.size_bytes, 70'000U);
  EXPECT_EQ(decode_loan(std::span(lent).first(lent.size() - 1)).code(), Code::corrupt);
}

}  // namespace
}  // namespace rehearse
