#include "runtime/world/recorder.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace rehearse {
namespace {

using namespace std::chrono_literals;

Event sent(std::uint16_t peer, std::uint64_t bytes) { return {EventKind::sent, peer, 7, bytes}; }

// Each event carries where the worker was and when.
TEST(Recorder, StampsAnEventWithTheStepAndPhaseThatTheWorkerIsIn) {
  RunRecord run;
  Recorder recorder(run, 3, 7);
  recorder.step(5, Time(1ms));
  recorder.phase("backward", Time(2ms));
  const StampedEvent& event = recorder.append(sent(1, 10), Time(3ms));
  EXPECT_EQ(event.rank, 3);
  EXPECT_EQ(event.generation, 7u);
  EXPECT_EQ(event.step, 5);
  EXPECT_EQ(run.phase_name(event.phase), "backward");
  EXPECT_EQ(event.time, Time(3ms));
  EXPECT_EQ(event.lamport, 3u);
}

// The received event comes after the sent one in every order that respects causes.
TEST(Recorder, AReceivedEventIsLaterThanTheSentOne) {
  RunRecord run;
  Recorder sender(run, 0), receiver(run, 1);
  for (int i = 0; i < 5; ++i) sender.append(sent(1, 1), Time{});
  receiver.observe(sender.lamport());
  EXPECT_EQ(receiver.append({EventKind::received, 0, 0, 1}, Time{}).lamport, 6u);
}

// Any change of any event, or of their order, changes both digests.
RC_GTEST_PROP(Recorder, TheDigestSeesEveryFieldAndTheOrder, ()) {
  const auto digests = [](const std::vector<std::pair<Event, Time>>& events) {
    RunRecord run;
    Recorder recorder(run, 1);
    for (const auto& [event, time] : events) recorder.append(event, time);
    return std::pair(run.digest(), recorder.digest());
  };
  std::vector<std::pair<Event, Time>> events;
  const int count = *rc::gen::inRange(1, 10);
  for (int i = 0; i < count; ++i) {
    events.push_back({{EventKind::sent, *rc::gen::arbitrary<std::uint16_t>(),
                       *rc::gen::arbitrary<std::uint64_t>(), *rc::gen::arbitrary<std::uint64_t>()},
                      Time(Duration(*rc::gen::inRange(0, 1000)))});
  }
  RC_ASSERT(digests(events) == digests(events));
  auto changed = events;
  auto& [event, time] = changed[*rc::gen::inRange<std::size_t>(0, changed.size())];
  switch (*rc::gen::inRange(0, 5)) {
    case 0:
      event.kind = EventKind::received;
      break;
    case 1:
      event.peer ^= 1;
      break;
    case 2:
      event.subject ^= 1;
      break;
    case 3:
      event.amount ^= std::uint64_t{1} << 63;
      break;
    default:
      time += 1ns;
  }
  RC_ASSERT(digests(events).first != digests(changed).first);
  RC_ASSERT(digests(events).second != digests(changed).second);
}

// What the runner reads: the journal sorted, counters added up over workers, phases by index.
TEST(RunRecord, FillsAnOutcome) {
  RunRecord run({.keep = RecordOptions::Keep::all});
  Recorder first(run, 0), second(run, 1);
  first.phase("forward", Time{});
  first.append(sent(1, 100), Time{});
  second.append(sent(0, 11), Time{});
  run.count("contexts_live", 2);
  run.count("contexts_live", -2);
  run.journal({2, 0, 0, 0, 0, 0, 5, {}});
  run.journal({1, 0, 0, 0, 0, 0, 9, {}});
  run.note("why");
  RunOutcome outcome;
  run.fill(outcome);
  EXPECT_EQ(outcome.counters.at("messages"), 2);
  EXPECT_EQ(outcome.counters.at("bytes"), 111);
  EXPECT_EQ(outcome.counters.at("events"), 3);
  EXPECT_EQ(outcome.counters.at("contexts_live"), 0);
  EXPECT_EQ(outcome.journal.at(0).step, 1);
  EXPECT_EQ(outcome.events.size(), 3u);
  EXPECT_EQ(outcome.events.at(1).phase, 1);
  EXPECT_EQ(outcome.phases.at(1), "forward");
  EXPECT_EQ(outcome.notes, std::vector<std::string>{"why"});
  EXPECT_EQ(outcome.digest, run.digest());
}

// A long real job keeps the last events only; digest and counters are those of all.
TEST(RunRecord, KeepsTheLastEventsOnlyWhenAskedTo) {
  RunRecord run({.keep = RecordOptions::Keep::last, .last_events = 2});
  Recorder recorder(run, 0);
  for (std::uint64_t bytes = 1; bytes <= 5; ++bytes) recorder.append(sent(1, bytes), Time{});
  ASSERT_EQ(run.events().size(), 2u);
  EXPECT_EQ(run.events().front().event.amount, 4u);
}

}  // namespace
}  // namespace rehearse
