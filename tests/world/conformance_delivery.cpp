#include <fmt/format.h>

#include "tests/world/conformance.hpp"

namespace rehearse {
namespace {

using namespace std::chrono_literals;

constexpr int kCount = 60;

// Sends numbered messages on both lanes, some with payloads of up to 1 MiB.
void send_many(World& world) {
  auto endpoint = open_own(world);
  const Address b = find(world, "b");
  for (int i = 0; i < kCount; ++i) {
    const std::size_t size_bytes = i % 7 == 3 ? std::size_t{1} << 20 : static_cast<std::size_t>(i);
    const Lane lane = i % 3 == 0 ? Lane::control : Lane::data;
    endpoint->send(b, lane, payload_message(fmt::format("{}", i), size_bytes)).or_throw();
  }
  if (hear(*endpoint, late(world)) != "thanks") throw Error(Code::stopped, "expected thanks");
}

// Leaves what came, by lane, then the first thing after it.
void hear_many(World& world) {
  auto endpoint = open_own(world);
  std::string lanes[kLanes];
  Address from;
  for (int i = 0; i < kCount; ++i) {
    const Envelope envelope = endpoint->receive(late(world)).or_throw();
    from = envelope.from;
    const auto& received = std::get<Received>(envelope.what);
    lanes[static_cast<int>(received.lane)] += text_of(received.message.header);
    lanes[static_cast<int>(received.lane)] += " ";
  }
  say(*endpoint, from, "thanks");
  leave(world, lanes[0], "control");
  leave(world, lanes[1], "data");
  leave(world, hear(*endpoint, late(world)), "after");
}

std::string numbers(bool of_control) {
  std::string text;
  for (int i = 0; i < kCount; ++i) {
    if ((i % 3 == 0) == of_control) text += fmt::format("{} ", i);
  }
  return text;
}

// Small and large ones mixed: each lane in the order of sending, nothing missing, nothing twice.
TEST_P(Conformance, MessagesOfALaneArriveOnceAndInTheOrderOfSending) {
  add("a", send_many);
  add("b", hear_many);
  run();
  EXPECT_EQ(left("b", "control"), numbers(true));
  EXPECT_EQ(left("b", "data"), numbers(false));
  EXPECT_EQ(left("b", "after"), "lost") << "the sender has ended, and nothing came twice";
}

// The same when messages are held up at random.
TEST_P(Conformance, DelaysAndReorderingChangeNoOrderWithinALane) {
  add("a", send_many);
  add("b", hear_many);
  FaultSpec reorder;
  reorder.id = "reorder";
  reorder.kind = FaultKind::reorder;
  reorder.by = 2ms;
  FaultSpec delay = reorder;
  delay.id = "delay";
  delay.kind = FaultKind::delay;
  delay.by = 1ms;
  delay.jitter = 1ms;
  stage->fault(reorder);
  stage->fault(delay);
  const RunOutcome outcome = run();
  EXPECT_EQ(left("b", "control"), numbers(true));
  EXPECT_EQ(left("b", "data"), numbers(false));
  ASSERT_EQ(outcome.faults.size(), 2u);
  EXPECT_EQ(outcome.faults[0].fired, 1u);
  EXPECT_EQ(outcome.faults[1].fired, 1u);
}

TEST_P(Conformance, APayloadArrivesBitForBit) {
  add("a", [](World& world) {
    auto endpoint = open_own(world);
    const Message message = payload_message("bulk", std::size_t{9} << 20);
    endpoint->send(find(world, "b"), Lane::data, message).or_throw();
    hear(*endpoint, late(world));
  });
  add("b", [](World& world) {
    auto endpoint = open_own(world);
    leave(world, hear(*endpoint, late(world)));
  });
  run();
  EXPECT_EQ(left("b"), "bulk");
}

TEST_P(Conformance, AWorkerSendsToItselfLikeToAnyOther) {
  add("a", [](World& world) {
    auto endpoint = open_own(world);
    say(*endpoint, world.self.address, "one");
    say(*endpoint, endpoint->address(), "two");
    std::string heard = hear(*endpoint, late(world)) + " ";
    heard += hear(*endpoint, late(world));
    leave(world, heard);
  });
  run();
  EXPECT_EQ(left("a"), "one two");
}

// The message is asked for only after the deadline has passed: it must still be there then.
TEST_P(Conformance, AReceiveThatTimedOutLosesNothing) {
  add("a", [](World& world) {
    auto endpoint = open_own(world);
    const Address b = find(world, "b");
    const Time deadline = soon(world, 20ms);
    std::string heard = hear(*endpoint, deadline) + " ";
    heard += world.clock.now() >= deadline ? "in time " : "too early ";
    say(*endpoint, b, "go");
    heard += hear(*endpoint, late(world));
    leave(world, heard);
  });
  add("b", [](World& world) {
    auto endpoint = open_own(world);
    const Envelope envelope = endpoint->receive(late(world)).or_throw();
    say(*endpoint, envelope.from, "answer");
    hear(*endpoint, late(world));
  });
  run();
  EXPECT_EQ(left("a"), "timed_out in time answer");
}

// A worker may have several endpoints; each hears only what is sent to it.
TEST_P(Conformance, ASecondEndpointIsFoundByItsName) {
  add("a", [](World& world) {
    auto own = open_own(world);
    auto store = world.net.open("a.store").or_throw();
    const Address address = find(world, "a.store");
    std::string heard = address == store->address() ? "found " : "not found ";
    say(*own, address, "to the store");
    say(*store, own->address(), "to the worker");
    heard += hear(*store, late(world)) + " " + hear(*own, late(world));
    leave(world, heard);
  });
  run();
  EXPECT_EQ(left("a"), "found to the store to the worker");
}

TEST_P(Conformance, ANameThatIsTakenIsRefused) {
  add("a", [](World& world) {
    auto own = open_own(world);
    auto store = world.net.open("a.store").or_throw();
    std::string heard(name(world.net.open("a.store").code()));
    heard += " " + std::string(name(world.net.open(world.self.name).code()));
    leave(world, heard);
  });
  run();
  EXPECT_EQ(left("a"), "bad_argument bad_argument");
}

TEST_P(Conformance, FindingANameThatNobodyPublishesTimesOut) {
  add("a", [](World& world) {
    std::string heard(name(world.net.find("nobody", soon(world, 20ms)).code()));
    world.net.publish("somebody", world.self.address).or_throw();
    heard += find(world, "somebody") == world.self.address ? " found" : " not found";
    leave(world, heard);
  });
  run();
  EXPECT_EQ(left("a"), "timed_out found");
}

}  // namespace
}  // namespace rehearse
