#include "runtime/world/fault_engine.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace rehearse {
namespace {

using namespace std::chrono_literals;
using Anchor = FaultTrigger::Anchor;
using Who = FaultTarget::Kind;

FaultSpec fault(FaultKind kind, FaultTarget who, FaultTrigger when) {
  FaultSpec spec;
  spec.id = "it";
  spec.kind = kind;
  spec.who = std::move(who);
  spec.when = std::move(when);
  return spec;
}
FaultTarget ranks(std::vector<int> list) { return {Who::ranks, std::move(list), 0, 0, false}; }
FaultTarget link(int from, int to, bool both = false) { return {Who::link, {}, from, to, both}; }
FaultTarget everyone() { return {}; }
FaultTrigger at_step(std::int64_t step, std::string phase = "") {
  FaultTrigger when;
  when.anchor = Anchor::step;
  when.step = step;
  when.phase = std::move(phase);
  return when;
}
FaultTrigger on(EventKind event, std::uint64_t nth = 1) {
  FaultTrigger when;
  when.anchor = Anchor::event;
  when.event = event;
  when.nth = nth;
  return when;
}
FaultTrigger at(Time time) {
  FaultTrigger when;
  when.anchor = Anchor::time;
  when.time = time;
  return when;
}
FaultTrigger with_probability(double probability) {
  FaultTrigger when;
  when.anchor = Anchor::probability;
  when.probability = probability;
  return when;
}

Occurrence event(int rank, EventKind kind, std::int64_t step = -1, std::string_view phase = "") {
  return {rank, {kind, 0, 0, 0}, step, phase};
}
std::vector<int> killed(const std::vector<Firing>& fired) {
  std::vector<int> all;
  for (const Firing& firing : fired)
    all.insert(all.end(), firing.kills.begin(), firing.kills.end());
  return all;
}

TEST(FaultEngine, AKillAtAStepStrikesWhenTheTargetReachesItAndOnlyOnce) {
  FaultEngine engine({fault(FaultKind::kill, ranks({2}), at_step(5))}, 1, 4);
  EXPECT_TRUE(engine.on_event(event(1, EventKind::step, 5), Time(1s)).empty()) << "another's step";
  EXPECT_TRUE(engine.on_event(event(2, EventKind::step, 4), Time(1s)).empty());
  EXPECT_EQ(killed(engine.on_event(event(2, EventKind::step, 5), Time(2s))), std::vector{2});
  EXPECT_TRUE(engine.on_event(event(2, EventKind::step, 5), Time(3s)).empty()) << "used up";
  EXPECT_EQ(engine.outcomes()[0].fired, 1u);
  EXPECT_EQ(engine.outcomes()[0].first_fired, Time(2s));
  EXPECT_FALSE(engine.armed());
}

TEST(FaultEngine, APhaseNarrowsAStepToEnteringIt) {
  FaultEngine engine({fault(FaultKind::kill, ranks({0}), at_step(5, "backward"))}, 1, 1);
  EXPECT_TRUE(engine.on_event(event(0, EventKind::step, 5, "backward"), Time{}).empty());
  EXPECT_TRUE(engine.on_event(event(0, EventKind::phase, 4, "backward"), Time{}).empty());
  EXPECT_TRUE(engine.on_event(event(0, EventKind::phase, 5, "forward"), Time{}).empty());
  EXPECT_TRUE(engine.on_event(event(0, EventKind::sent, 5, "backward"), Time{}).empty());
  EXPECT_EQ(killed(engine.on_event(event(0, EventKind::phase, 5, "backward"), Time{})).size(), 1u);
}

// With a rank it is that worker's step, whoever is struck.
TEST(FaultEngine, TheStepOfAnotherRankMayTrigger) {
  FaultTrigger when = at_step(3);
  when.rank = 0;
  FaultEngine engine({fault(FaultKind::kill, ranks({2}), when)}, 1, 3);
  EXPECT_TRUE(engine.on_event(event(2, EventKind::step, 3), Time{}).empty());
  EXPECT_EQ(killed(engine.on_event(event(0, EventKind::step, 3), Time{})), std::vector{2});
}

TEST(FaultEngine, EveryoneIsStruckWhenTheFirstGetsThere) {
  FaultEngine engine({fault(FaultKind::kill, everyone(), at_step(1))}, 1, 3);
  EXPECT_EQ(killed(engine.on_event(event(1, EventKind::step, 1), Time{})), (std::vector{0, 1, 2}));
}

// The nth occurrence is counted over the run; a step computed again counts again.
TEST(FaultEngine, NthCountsOccurrencesOnTheTarget) {
  FaultTrigger when = at_step(2);
  when.nth = 2;
  FaultEngine engine({fault(FaultKind::kill, ranks({0}), on(EventKind::sent, 3)),
                      fault(FaultKind::kill, ranks({1}), when)},
                     1, 2);
  EXPECT_TRUE(engine.on_event(event(0, EventKind::sent), Time{}).empty());
  EXPECT_TRUE(engine.on_event(event(0, EventKind::sent), Time{}).empty());
  EXPECT_TRUE(engine.on_event(event(1, EventKind::sent), Time{}).empty()) << "another's message";
  EXPECT_EQ(killed(engine.on_event(event(0, EventKind::sent), Time{})), std::vector{0});
  EXPECT_TRUE(engine.on_event(event(1, EventKind::step, 2), Time{}).empty());
  EXPECT_EQ(killed(engine.on_event(event(1, EventKind::step, 2), Time{})), std::vector{1});
}

TEST(FaultEngine, ATimeFiresOnceItHasCome) {
  FaultEngine engine({fault(FaultKind::kill, ranks({0}), at(Time(2s))),
                      fault(FaultKind::kill, ranks({1}), at(Time(1s)))},
                     1, 2);
  EXPECT_EQ(engine.next_time(), Time(1s));
  EXPECT_TRUE(engine.on_time(Time(999ms)).empty());
  EXPECT_EQ(killed(engine.on_time(Time(1s))), std::vector{1});
  EXPECT_EQ(engine.next_time(), Time(2s));
  EXPECT_EQ(killed(engine.on_time(Time(5s))), std::vector{0});
  EXPECT_EQ(engine.next_time(), kNever);
}

// Killing who has gone already is no firing: the verdict will be `not_fired`.
TEST(FaultEngine, AKillThatFindsNobodyHasNotFired) {
  FaultEngine engine({fault(FaultKind::kill, ranks({0}), at(Time(1s)))}, 1, 2);
  engine.set_gone(0);
  EXPECT_TRUE(engine.on_time(Time(2s)).empty());
  EXPECT_EQ(engine.next_time(), kNever);
  EXPECT_EQ(engine.outcomes()[0].fired, 0u);
}

Duration delay_of(FaultEngine& engine, int from, int to, Time now,
                  MessageKind kind = MessageKind::user) {
  std::vector<Firing> fired;
  return engine.extra_delay(from, to, kind, now, fired);
}

TEST(FaultEngine, ADelayActsFromItsFiringForItsDuration) {
  FaultSpec spec = fault(FaultKind::delay, link(0, 1), at(Time(1s)));
  spec.by = 5ms;
  spec.lasts = 2s;
  FaultEngine engine({spec}, 1, 2);
  EXPECT_EQ(delay_of(engine, 0, 1, Time{}), 0ms);
  EXPECT_EQ(engine.on_time(Time(1s)).size(), 1u);
  EXPECT_EQ(delay_of(engine, 0, 1, Time(1s)), 5ms);
  EXPECT_EQ(delay_of(engine, 1, 0, Time(1s)), 0ms) << "the link is directed";
  EXPECT_EQ(delay_of(engine, 0, 1, Time(3s)), 0ms) << "it is over";
}

TEST(FaultEngine, ADelayMayBeForSomeMessagesAndBothWays) {
  FaultSpec spec = fault(FaultKind::delay, link(0, 1, true), at(Time{}));
  spec.by = 5ms;
  spec.messages = {MessageKind::grad, MessageKind::start};
  FaultEngine engine({spec}, 1, 2);
  EXPECT_EQ(engine.on_time(Time{}).size(), 1u);
  EXPECT_EQ(delay_of(engine, 1, 0, Time{}, MessageKind::grad), 5ms);
  EXPECT_EQ(delay_of(engine, 0, 1, Time{}, MessageKind::request), 0ms);
}

// Its trigger is not its firing: the verdict on a delay that met no message is `not_fired`.
TEST(FaultEngine, ADelayHasFiredOnlyOnceItHasStruckAMessage) {
  FaultSpec spec = fault(FaultKind::delay, link(0, 1), at_step(2));
  spec.by = 5ms;
  spec.messages = {MessageKind::grad};
  FaultEngine engine({spec}, 1, 2);
  const auto begun = engine.on_event(event(0, EventKind::step, 2), Time(1s));
  ASSERT_EQ(begun.size(), 1u);
  EXPECT_EQ(begun[0].what, Firing::What::begins);
  EXPECT_TRUE(engine.on_event(event(0, EventKind::step, 2), Time(1s)).empty()) << "once";
  EXPECT_EQ(delay_of(engine, 0, 1, Time(1s), MessageKind::request), 0ms);
  EXPECT_EQ(engine.outcomes()[0].fired, 0u);
  std::vector<Firing> fired;
  EXPECT_EQ(engine.extra_delay(0, 1, MessageKind::grad, Time(2s), fired), 5ms);
  EXPECT_EQ(engine.extra_delay(0, 1, MessageKind::grad, Time(3s), fired), 5ms);
  ASSERT_EQ(fired.size(), 1u);
  EXPECT_EQ(fired[0].what, Firing::What::fires);
  EXPECT_EQ(engine.outcomes()[0].fired, 1u);
  EXPECT_EQ(engine.outcomes()[0].first_fired, Time(2s));
}

// What begins in one process acts in all; which of them it strikes first makes no difference.
TEST(FaultEngine, ADelayThatBeganElsewhereActsHereAndMayFireElsewhere) {
  FaultSpec spec = fault(FaultKind::delay, everyone(), at_step(2));
  spec.by = 5ms;
  spec.lasts = 2s;
  FaultEngine engine({spec}, 1, 2);
  EXPECT_TRUE(engine.elsewhere(Firing::What::begins, 0, Time(1s)));
  EXPECT_FALSE(engine.elsewhere(Firing::What::begins, 0, Time(1s)));
  EXPECT_TRUE(engine.elsewhere(Firing::What::fires, 0, Time(1s)));
  EXPECT_FALSE(engine.elsewhere(Firing::What::fires, 0, Time(2s)));
  EXPECT_EQ(delay_of(engine, 1, 0, Time(2s)), 5ms);
  EXPECT_EQ(delay_of(engine, 1, 0, Time(3s)), 0ms) << "over, counted from where it began";
  EXPECT_EQ(engine.outcomes()[0].first_fired, Time(1s));
}

// Two engines work on one plan, as two processes do: what either comes to counts.
TEST(FaultEngine, NthCountsOverAllEnginesThatShareACount) {
  FaultTrigger when = at_step(1);
  when.nth = 3;
  std::uint64_t met = 0;
  const auto count = [&met](std::size_t) { return ++met; };
  const std::vector<FaultSpec> plan = {fault(FaultKind::kill, everyone(), when)};
  FaultEngine first(plan, 1, 2, count), second(plan, 1, 2, count);
  EXPECT_TRUE(first.on_event(event(0, EventKind::step, 1), Time{}).empty());
  EXPECT_TRUE(second.on_event(event(1, EventKind::step, 1), Time{}).empty());
  EXPECT_EQ(second.on_event(event(1, EventKind::step, 1), Time{}).size(), 1u);
  EXPECT_TRUE(first.on_event(event(0, EventKind::step, 1), Time{}).empty());
}

// A link's trigger is looked for on its first end.
TEST(FaultEngine, ALinksStepIsThatOfItsFirstEnd) {
  FaultSpec spec = fault(FaultKind::delay, link(1, 0), at_step(2));
  spec.by = 1ms;
  FaultEngine engine({spec}, 1, 2);
  EXPECT_TRUE(engine.on_event(event(0, EventKind::step, 2), Time{}).empty());
  EXPECT_EQ(engine.on_event(event(1, EventKind::step, 2), Time{}).size(), 1u);
  EXPECT_EQ(delay_of(engine, 1, 0, Time{}), 1ms);
}

// Draws depend on seed, fault, pair and count, not on the order in which pairs are asked.
RC_GTEST_PROP(FaultEngine, WhatIsDrawnDoesNotDependOnOtherPairs, ()) {
  FaultSpec reorder = fault(FaultKind::reorder, everyone(), at(Time{}));
  reorder.by = 3ms;
  FaultSpec lossy = fault(FaultKind::delay, everyone(), with_probability(0.5));
  lossy.by = 1ms;
  lossy.jitter = 2ms;
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const int count = *rc::gen::inRange(1, 20);
  FaultEngine together({reorder, lossy}, seed, 3), alone({reorder, lossy}, seed, 3);
  RC_ASSERT(together.on_time(Time{}).size() == 1u);
  RC_ASSERT(alone.on_time(Time{}).size() == 1u);
  std::vector<Duration> first, second;
  for (int i = 0; i < count; ++i) {
    first.push_back(delay_of(together, 0, 1, Time{}));
    delay_of(together, 1, 2, Time{});
  }
  for (int i = 0; i < count; ++i) second.push_back(delay_of(alone, 0, 1, Time{}));
  RC_ASSERT(first == second);
  for (Duration delay : first) RC_ASSERT(delay >= 0ms && delay <= 6ms);
}

// A delay by probability has fired with its first hit, and hits about as often as it says.
TEST(FaultEngine, AProbabilityIsDrawnForEachMessage) {
  FaultSpec spec = fault(FaultKind::delay, everyone(), with_probability(0.25));
  spec.by = 1ms;
  FaultEngine engine({spec}, 7, 2);
  std::vector<Firing> fired;
  int hits = 0;
  for (int i = 0; i < 4000; ++i) {
    if (engine.extra_delay(0, 1, MessageKind::user, Time(1s), fired) > 0ms) ++hits;
  }
  EXPECT_EQ(fired.size(), 1u);
  EXPECT_EQ(engine.outcomes()[0].fired, 1u);
  EXPECT_GT(hits, 900);
  EXPECT_LT(hits, 1100);
}

// A kill by probability strikes the worker whose step drew it, the same one for the same seed.
TEST(FaultEngine, AKillByProbabilityStrikesWhoDrewIt) {
  const auto run = [](std::uint64_t seed) {
    FaultEngine engine({fault(FaultKind::kill, everyone(), with_probability(0.05))}, seed, 8);
    for (int step = 0; step < 1000; ++step) {
      for (int rank = 0; rank < 8; ++rank) {
        const auto fired = engine.on_event(event(rank, EventKind::step, step), Time{});
        if (!fired.empty()) return std::pair(step, killed(fired));
      }
    }
    return std::pair(-1, std::vector<int>{});
  };
  EXPECT_EQ(run(3), run(3));
  EXPECT_EQ(run(3).second.size(), 1u);
  EXPECT_NE(run(3), run(4));
}

}  // namespace
}  // namespace rehearse
