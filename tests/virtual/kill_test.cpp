#include <fmt/format.h>

#include "runtime/virtual/job.hpp"
#include "tests/virtual/job_fixture.hpp"

namespace rehearse::virtual_world {
namespace {

// A listener that says what it hears until `until`.
Job::Body listens(std::string& heard, Time until) {
  return [&heard, until](World& world) {
    auto endpoint = open_own(world);
    for (;;) {
      const auto envelope = endpoint->receive(until);
      heard += fmt::format("{} at {}; ", describe(envelope), micros(world));
      if (!envelope.ok()) return;
    }
  };
}

// A kill from outside cancels what the worker has sent for a later time of its own.
TEST(Kill, WhatHadNotLeftByTheKillVanishes) {
  ConstantPhysics physics(plain_physics());
  JobOptions options;
  options.faults = {kill_at(0, Time(500us))};
  Job job(physics, options);
  std::string heard;
  job.add("a", 0, [](World& world) {
    auto endpoint = open_own(world);
    const Address b = world.net.find("b", kNever).or_throw();
    endpoint->send(b, Lane::control, text_message("before")).or_throw();
    world.compute.charge({.flops = 1'000'000, .bytes = 0});
    endpoint->send(b, Lane::control, text_message("after")).or_throw();
    world.clock.sleep_until(Time(1s));
  });
  job.add("b", 1, listens(heard, Time(10ms)));
  EXPECT_TRUE(job.run().workers[0].killed);
  EXPECT_EQ(heard, "before at 10; lost: killed at 510; timed_out at 10000; ");
}

// A worker that comes to its fault ahead of the world: what it sent up to there leaves, then it is
// gone, at its own time.
TEST(Kill, AFaultInTheWorkersOwnTaskStrikesAtItsLocalTime) {
  ConstantPhysics physics(plain_physics());
  JobOptions options;
  options.faults = {kill_at_step(0, 1)};
  Job job(physics, options);
  std::string heard;
  bool went_on = false;
  job.add("a", 0, [&](World& world) {
    auto endpoint = open_own(world);
    world.compute.charge({.flops = 1'000'000, .bytes = 0});
    endpoint->send(world.net.find("b", kNever).or_throw(), Lane::control, text_message("x"))
        .or_throw();
    world.events.step(1);
    went_on = true;
  });
  job.add("b", 1, listens(heard, Time(10ms)));
  const RunOutcome outcome = job.run();
  EXPECT_FALSE(went_on);
  EXPECT_EQ(heard, "x at 1010; lost: killed at 1010; timed_out at 10000; ");
  EXPECT_EQ(outcome.faults[0].first_fired, Time(1ms));
}

// Silent: nothing comes any more, and what is sent there vanishes.
TEST(Kill, ASilentKillIsNeverTold) {
  ConstantPhysics physics(plain_physics());
  JobOptions options;
  options.faults = {kill_at(0, Time(500us), SeenAs::silent)};
  Job job(physics, options);
  std::string heard;
  job.add("a", 0, [](World& world) {
    auto endpoint = open_own(world);
    endpoint->send(world.net.find("b", kNever).or_throw(), Lane::control, text_message("x"))
        .or_throw();
    world.clock.sleep_until(Time(1s));
  });
  job.add("b", 1, [&](World& world) {
    auto endpoint = open_own(world);
    heard = describe(endpoint->receive(kNever)) + " ";
    world.clock.sleep_until(Time(1ms));
    const Address a = world.net.find("a", kNever).or_throw();
    EXPECT_TRUE(endpoint->send(a, Lane::control, text_message("hello?")).ok());
    heard += describe(endpoint->receive(Time(10s)));
  });
  EXPECT_EQ(job.run().end, RunOutcome::End::done);
  EXPECT_EQ(heard, "x timed_out");
}

// The loss comes behind a transfer that is still in the air on the other lane.
TEST(Kill, ALossIsToldBehindTheLastMessageOfBothLanes) {
  ConstantPhysics physics(plain_physics());
  JobOptions options;
  options.faults = {kill_at_step(0, 1)};
  Job job(physics, options);
  std::string heard;
  job.add("a", 0, [](World& world) {
    auto endpoint = open_own(world);
    const auto bulk = std::make_shared<const Bytes>(std::size_t{1} << 20);
    Message large = text_message("large");
    large.payloads.emplace_back(bulk, *bulk);
    const Address b = world.net.find("b", kNever).or_throw();
    endpoint->send(b, Lane::data, large).or_throw();
    endpoint->send(b, Lane::control, text_message("small")).or_throw();
    world.events.step(1);
  });
  job.add("b", 1, listens(heard, Time(10ms)));
  EXPECT_EQ(job.run().end, RunOutcome::End::done);
  EXPECT_EQ(heard, "small at 10; large at 1058; lost: killed at 1058; timed_out at 10000; ");
}

// One worker's step kills another, which is in the middle of a wait.
TEST(Kill, AnothersStepMayKill) {
  ConstantPhysics physics(plain_physics());
  JobOptions options;
  options.faults = {kill_at_step(1, 3)};
  options.faults[0].when.rank = 0;
  Job job(physics, options);
  job.add("a", 0, [](World& world) {
    world.clock.sleep_until(Time(1ms));
    world.events.step(3);
  });
  job.add("b", 1, [](World& world) { world.clock.sleep_until(Time(1h)); });
  const RunOutcome outcome = job.run();
  EXPECT_TRUE(outcome.workers[0].finished);
  EXPECT_TRUE(outcome.workers[1].killed);
  EXPECT_EQ(outcome.world_end, Time(1ms));
}

// Destructors of a killed worker run after the run; nothing that they do is visible: not to peers,
// not on disk, not in events, journal, notes or counters.
TEST(Kill, NothingThatAKilledWorkersDestructorsDoIsVisible) {
  const auto run = [](bool says_goodbye, bool& destroyed) {
    struct Goodbye {
      World& world;
      Endpoint& endpoint;
      Address to;
      bool says;
      bool& destroyed;
      ~Goodbye() {
        destroyed = true;
        if (!says) return;
        const Status sent = endpoint.send(to, Lane::control, text_message("goodbye"));
        const Status put = world.disk.put("goodbye", bytes_of("x"));
        const auto received = endpoint.receive(kNever);
        world.clock.sleep_until(world.clock.now() + 1s);
        world.events.append({EventKind::context_closed, 0, 7, 0});
        world.events.step(99);
        world.events.phase("never");
        world.events.journal({});
        world.events.note("goodbye");
        world.events.count("goodbyes", 1);
        world.compute.charge({.flops = 1, .bytes = 0});
        const auto opened = world.net.open("goodbye");
        const auto found = world.net.find("b", kNever);
        world.tasks.spawn("goodbye", Duty::foreground, [] {});
        world.tasks.yield();
      }
    };
    ConstantPhysics physics(plain_physics());
    JobOptions options;
    options.faults = {kill_at(0, Time(1ms))};
    options.keep_events = true;
    Job job(physics, options);
    std::string heard;
    job.add("a", 0, [&](World& world) {
      auto endpoint = open_own(world);
      const Address b = world.net.find("b", kNever).or_throw();
      const Goodbye goodbye{world, *endpoint, b, says_goodbye, destroyed};
      endpoint->send(b, Lane::control, text_message("hello")).or_throw();
      world.clock.sleep_until(Time(1h));
    });
    job.add("b", 1, listens(heard, Time(10ms)));
    RunOutcome outcome = job.run();
    EXPECT_EQ(heard, "hello at 10; lost: killed at 1010; timed_out at 10000; ");
    EXPECT_FALSE(job.on_disk("a", "goodbye").ok());
    EXPECT_EQ(outcome.counters.at("tasks_abandoned"), 0);
    return outcome;
  };
  bool destroyed = false;
  const RunOutcome quiet = run(false, destroyed);
  destroyed = false;
  const RunOutcome loud = run(true, destroyed);
  EXPECT_TRUE(destroyed);
  EXPECT_EQ(quiet.digest, loud.digest);
  EXPECT_EQ(quiet.workers[0].digest, loud.workers[0].digest);
  EXPECT_EQ(quiet.counters, loud.counters);
  EXPECT_EQ(quiet.events.size(), loud.events.size());
  EXPECT_TRUE(loud.journal.empty());
  EXPECT_TRUE(loud.notes.empty());
}

// A fault that strikes inside a destructor's event: that stack is abandoned, the run is not.
TEST(Kill, AFaultMayStrikeInADestructor) {
  ConstantPhysics physics(plain_physics());
  JobOptions options;
  options.faults = {kill_at_step(0, 1)};
  Job job(physics, options);
  job.add("a", 0, [](World& world) {
    struct AtEnd {
      World& world;
      ~AtEnd() { world.events.step(1); }
    } at_end{world};
  });
  const RunOutcome outcome = job.run();
  EXPECT_TRUE(outcome.workers[0].killed);
  EXPECT_EQ(outcome.counters.at("tasks_abandoned"), 1);
}

}  // namespace
}  // namespace rehearse::virtual_world
