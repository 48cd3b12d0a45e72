#include "runtime/autograd/protocol.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "runtime/base/random.hpp"

namespace rehearse::autograd {
namespace {

/// Draws messages with every field set.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  std::uint64_t number(int bits) { return random_() >> (64 - 1 - random_.below(bits)); }
  bool flip() { return random_.chance(0.5); }
  WorkerId worker() { return static_cast<WorkerId>(number(16)); }
  ContextId context() {
    return make_context(worker(), worker(), static_cast<std::uint32_t>(number(32)));
  }
  PassId pass() { return {context(), worker(), static_cast<std::uint32_t>(number(32))}; }
  PairId pair() { return PairId(worker(), number(47), false); }
  PairId any_pair() { return PairId(worker(), number(47), flip()); }
  std::string text() { return std::string(random_.below(20), 'x'); }
  Verdict verdict() { return static_cast<Verdict>(random_.below(4)); }
  Settled settled() {
    const Verdict how = verdict();
    return how == Verdict::none ? Settled{} : Settled{pass(), how};
  }
  template <class Make>
  auto sorted(Make make) {
    std::set<decltype(make())> some;
    for (std::uint64_t count = random_.below(6); count > 0; --count) some.insert(make());
    return std::vector(some.begin(), some.end());
  }
  std::vector<WorkerId> workers() {
    return sorted([this] { return worker(); });
  }
  std::vector<PairId> pairs() {
    return sorted([this] { return any_pair(); });
  }
  std::vector<Item> items() {
    std::vector<Item> items;
    for (std::uint64_t count = random_.below(5); count > 0; --count) {
      const PairId id = any_pair();
      items.push_back({id, id.shared() ? WorkerId{0} : worker(), pairs()});
    }
    return items;
  }
  Start start() {
    return {pass(),
            workers(),
            pairs(),
            options(),
            flip() ? Duration::max() : Duration(number(62)),
            static_cast<std::uint32_t>(number(8)),
            settled()};
  }
  PassOptions options() {
    PassOptions options{flip(), flip(), flip(), flip(), {}};
    for (std::uint64_t left = options.create_graph ? random_.below(4) : 0; left > 0; --left) {
      options.path.parts.push_back(static_cast<std::uint32_t>(number(32)));
    }
    return options;
  }
  Grad grad() { return {pass(), pair(), flip() ? bytes_of(text()) : Bytes(), bytes_of(text())}; }
  std::vector<ContextId> contexts() {
    return sorted([this] { return context(); });
  }

  Random random_;
};

template <class Message>
Bytes encoded(const Message& message) {
  Bytes bytes;
  encode(message, bytes);
  return bytes;
}

template <class Message>
void expect_back(const Message& message) {
  const Bytes bytes = encoded(message);
  const Result<Message> back = decode<Message>(bytes);
  RC_ASSERT(back.ok());
  RC_ASSERT(back.value() == message);
  // Every shorter message is refused, and so is a longer one.
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    RC_ASSERT(decode<Message>(std::span(bytes).first(size)).code() == Code::corrupt);
  }
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  RC_ASSERT(decode<Message>(longer).code() == Code::corrupt);
}

template <class Message>
void expect_back_any(const Message& message) {
  expect_back(message);
  Bytes bytes;
  encode_any(PassMessage(message), bytes);
  const Result<PassMessage> back = decode_any(Message::kKind, bytes);
  RC_ASSERT(back.ok());
  RC_ASSERT(std::get<Message>(back.value()) == message);
  RC_ASSERT(kind_of(back.value()) == Message::kKind);
}

// Round trip: every message comes back as it was; cut short or with bytes left over it is corrupt.
RC_GTEST_PROP(Protocol, messages_come_back_as_they_were, (std::uint64_t seed)) {
  Draw draw(seed);
  expect_back_any(TurnAsk{draw.pass()});
  expect_back_any(Turn{draw.pass(), draw.settled()});
  expect_back_any(TurnEnd{draw.pass(), draw.verdict()});
  expect_back(Query{draw.pass(), draw.pairs()});
  expect_back(Answer{draw.pass(), draw.items()});
  expect_back_any(draw.start());
  expect_back(draw.grad());
  expect_back_any(Done{draw.pass(), draw.workers()});
  expect_back_any(Fail{draw.pass(), Code::remote_exception, draw.text(), draw.text()});
  expect_back_any(Commit{draw.pass()});
  expect_back_any(Abort{draw.pass()});
  expect_back_any(VerdictAsk{draw.pass(), draw.flip(), draw.workers()});
  expect_back_any(VerdictAnswer{draw.pass(), draw.verdict(), draw.workers()});
  expect_back_any(Close{draw.context(), Code::pass_failed, draw.text(), 7, draw.contexts()});
  expect_back(OpenAsk{draw.worker()});
  expect_back(OpenAnswer{draw.worker(), 77, {3, 5, 9}});
  expect_back(Crossing{draw.pair(), draw.items()});
}

// Safety: arbitrary bytes are a message or corrupt, never a crash or a huge allocation; what is
// taken for a message can be written again.
RC_GTEST_PROP(Protocol, arbitrary_bytes_do_no_harm, (const std::vector<std::uint8_t>& noise)) {
  Bytes bytes;
  for (const std::uint8_t byte : noise) bytes.push_back(static_cast<std::byte>(byte));
  for (int kind = 0; kind < kMessageKinds; ++kind) {
    const Result<PassMessage> message = decode_any(static_cast<MessageKind>(kind), bytes);
    if (!message.ok()) {
      RC_ASSERT(message.code() == Code::corrupt);
      continue;
    }
    Bytes again;
    encode_any(message.value(), again);
    RC_ASSERT(decode_any(static_cast<MessageKind>(kind), again).ok());
  }
  (void)decode<Grad>(bytes);
  (void)decode<Answer>(bytes);
  (void)decode<Query>(bytes);
}

// Ranges: values that no writer produces are refused by name.
TEST(Protocol, refuses_what_is_out_of_range_or_unsorted) {
  const PassId pass{make_context(1, 2, 3), 4, 5};
  EXPECT_EQ(decode<Done>(encoded(Done{pass, {2, 1}})).code(), Code::corrupt);
  EXPECT_EQ(decode<Done>(encoded(Done{pass, {2, 2}})).code(), Code::corrupt);
  EXPECT_EQ(decode<TurnEnd>(encoded(TurnEnd{pass, static_cast<Verdict>(4)})).code(), Code::corrupt);
  EXPECT_EQ(decode<Crossing>(encoded(Crossing{PairId(1, 2, true), {}})).code(), Code::corrupt);
  EXPECT_EQ(decode_any(MessageKind::request, encoded(Commit{pass})).code(), Code::corrupt);
}

// Cost: a usual forward attachment (own pair, one pair behind it) and a COMMIT take few bytes.
TEST(Protocol, usual_messages_are_small) {
  const Crossing crossing{PairId(3, 50), {Item{PairId(3, 50), 4, {PairId(2, 50)}}}};
  EXPECT_EQ(encoded(crossing).size(), 9U);
  EXPECT_EQ(encoded(Commit{{make_context(3, 0, 9), 3, 1}}).size(), 5U);
}

// Ids: the parts of a context's and a pair's id can be read back, also with the sign bit set.
TEST(Protocol, ids_keep_their_parts) {
  const ContextId context = make_context(0xfffe, 0xabcd, 0x12345678);
  EXPECT_LT(context, 0);
  EXPECT_EQ(creator_of(context), 0xfffe);
  EXPECT_EQ(generation_of(context), 0xabcd);
  EXPECT_EQ(counter_of(context), 0x12345678U);
  const PairId pair(0xfffe, PairId::kCounterMax, true);
  EXPECT_EQ(pair.owner(), 0xfffe);
  EXPECT_EQ(pair.counter(), PairId::kCounterMax);
  EXPECT_TRUE(pair.shared());
  EXPECT_LT(PairId(1, PairId::kCounterMax, true), PairId(2, 0));
}

}  // namespace
}  // namespace rehearse::autograd
