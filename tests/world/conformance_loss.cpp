#include <fmt/format.h>

#include "tests/world/conformance.hpp"

namespace rehearse {
namespace {

using namespace std::chrono_literals;

// Answers pings; says before each which one it is.
void answer_pings(World& world) {
  auto endpoint = open_own(world);
  for (int round = 0;; ++round) {
    const Envelope envelope = endpoint->receive(late(world)).or_throw();
    if (!std::holds_alternative<Received>(envelope.what)) return;
    world.events.step(round);
    say(*endpoint, envelope.from, fmt::format("pong {}", round));
  }
}

// Two workers talk in turn; one is killed between two messages. The other has every message that
// came before, then the loss, then nothing more, and its next send is refused.
TEST_P(Conformance, WhoTalksToAKilledWorkerHearsThatItIsLostAfterItsLastMessage) {
  add("a", [](World& world) {
    auto endpoint = open_own(world);
    const Address b = find(world, "b");
    std::string heard, last;
    while (last != "lost") {
      say(*endpoint, b, "ping");
      last = hear(*endpoint, late(world));
      heard += last + " ";
    }
    heard += name(endpoint->send(b, Lane::control, text_message("late")).code());
    heard += " " + hear(*endpoint, soon(world, 50ms));
    leave(world, heard);
  });
  add("b", answer_pings);
  stage->fault(kill_at_step(1, 2));
  const RunOutcome outcome = run();
  EXPECT_EQ(left("a"), "pong 0 pong 1 lost peer_lost timed_out");
  ASSERT_EQ(outcome.workers.size(), 2u);
  EXPECT_TRUE(outcome.workers[0].finished);
  EXPECT_TRUE(outcome.workers[1].killed);
  EXPECT_FALSE(outcome.workers[1].finished);
  ASSERT_EQ(outcome.faults.size(), 1u);
  EXPECT_EQ(outcome.faults[0].fired, 1u);
}

// The third send strikes: that message has not left. What had left before may have arrived, in
// order, and the loss comes last.
TEST_P(Conformance, AKillWhileSendingLeavesAPrefixOfWhatWasSent) {
  add("a", [](World& world) {
    auto endpoint = open_own(world);
    std::string heard, last;
    say(*endpoint, find(world, "b"), "go");
    while (last != "lost" && last != "timed_out") {
      last = hear(*endpoint, late(world));
      heard += last + " ";
    }
    leave(world, heard);
  });
  add("b", [](World& world) {
    auto endpoint = open_own(world);
    const Address a = endpoint->receive(late(world)).or_throw().from;
    endpoint->send(a, Lane::data, payload_message("0", std::size_t{2} << 20)).or_throw();
    say(*endpoint, a, "1", Lane::data);
    say(*endpoint, a, "2", Lane::data);
    leave(world, "not killed");
  });
  stage->fault(kill_at_event(1, EventKind::sent, 3));
  run();
  const std::string heard = left("a");
  EXPECT_TRUE(heard == "lost " || heard == "0 lost " || heard == "0 1 lost ") << heard;
  EXPECT_EQ(left("b"), "");
}

// A worker that ends normally is lost too, after what it had sent.
TEST_P(Conformance, PeersHearTheEndOfAWorkerAfterAllItHasSent) {
  add("a", [](World& world) {
    auto endpoint = open_own(world);
    say(*endpoint, find(world, "b"), "go");
    std::string heard;
    for (int i = 0; i < 4; ++i) heard += hear(*endpoint, late(world)) + " ";
    leave(world, heard);
  });
  add("b", [](World& world) {
    auto endpoint = open_own(world);
    const Address a = endpoint->receive(late(world)).or_throw().from;
    endpoint->send(a, Lane::data, payload_message("0", std::size_t{4} << 20)).or_throw();
    say(*endpoint, a, "1", Lane::data);
    say(*endpoint, a, "2", Lane::data);
  });
  const RunOutcome outcome = run();
  EXPECT_EQ(left("a"), "0 1 2 lost ");
  EXPECT_TRUE(outcome.workers[1].finished);
}

// Peers are watched from the first message in either direction: also one that comes too late.
TEST_P(Conformance, WhoSendsToAWorkerThatHasEndedHearsThatItIsLost) {
  add("a", [](World& world) {
    auto endpoint = open_own(world);
    const Address b = find(world, "b");
    say(*endpoint, b, "wake up");
    std::string heard = hear(*endpoint, late(world));
    heard += " ";
    heard += name(endpoint->send(b, Lane::data, text_message("again")).code());
    leave(world, heard);
  });
  add("b", [](World&) {});
  run();
  EXPECT_EQ(left("a"), "lost peer_lost");
}

TEST_P(Conformance, AnEndpointThatIsClosedIsLostToItsPeersAndStopsItsReceiver) {
  add("a", [](World& world) {
    auto endpoint = open_own(world);
    std::string heard;
    const TaskId receiver = world.tasks.spawn("receiver", Duty::background, [&] {
      heard += hear(*endpoint, kNever) + " ";
      heard += hear(*endpoint, kNever);
    });
    say(*endpoint, find(world, "b"), "hello");
    while (heard.empty()) world.clock.sleep_until(soon(world, 1ms));
    endpoint.reset();
    world.tasks.join(receiver, kNever);
    leave(world, heard);
    world.clock.sleep_until(soon(world, 20ms));
  });
  add("b", [](World& world) {
    auto endpoint = open_own(world);
    say(*endpoint, endpoint->receive(late(world)).or_throw().from, "hello back");
    leave(world, hear(*endpoint, late(world)));
  });
  run();
  EXPECT_EQ(left("a"), "hello back stopped");
  EXPECT_EQ(left("b"), "lost");
}

// An exception that leaves any task ends the worker; peers see it lost, the run says why.
TEST_P(Conformance, AnExceptionThatLeavesATaskEndsTheWorkerAsFailed) {
  add("a", [](World& world) {
    auto endpoint = open_own(world);
    say(*endpoint, find(world, "b"), "hello");
    leave(world, hear(*endpoint, late(world)));
  });
  add("b", [](World& world) {
    auto endpoint = open_own(world);
    endpoint->receive(late(world)).or_throw();
    world.tasks.spawn("breaks", Duty::background, [] { throw Error(Code::not_found, "no table"); });
    world.tasks.park(kNever, {"the end", {}});
  });
  const RunOutcome outcome = run();
  EXPECT_EQ(left("a"), "lost");
  const WorkerOutcome& b = outcome.workers.at(1);
  EXPECT_FALSE(b.finished);
  EXPECT_FALSE(b.killed);
  ASSERT_TRUE(b.failure);
  EXPECT_NE(b.failure->message.find("breaks"), std::string::npos) << b.failure->message;
  EXPECT_NE(b.failure->message.find("no table"), std::string::npos) << b.failure->message;
}

// An object on disk is the old one or the new one, whole, wherever the crash strikes.
TEST_P(Conformance, ACrashLeavesAnObjectOfOnePiece) {
  add("a", [](World& world) {
    leave(world, std::string(1 << 20, '0'), "object");
    world.tasks.spawn("crash", Duty::background, [&] {
      world.clock.sleep_until(soon(world, 5ms));
      world.events.step(1);
    });
    for (char version = '1';; version = version == '9' ? '1' : static_cast<char>(version + 1)) {
      leave(world, std::string(1 << 20, version), "object");
      world.clock.sleep_until(soon(world, 100us));
    }
  });
  stage->fault(kill_at_step(0, 1));
  const RunOutcome outcome = run();
  EXPECT_TRUE(outcome.workers.at(0).killed);
  const std::string object = left("a", "object");
  ASSERT_EQ(object.size(), std::size_t{1} << 20);
  EXPECT_EQ(object.find_first_not_of(object[0]), std::string::npos);
}

}  // namespace
}  // namespace rehearse
