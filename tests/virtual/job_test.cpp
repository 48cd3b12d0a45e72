#include "runtime/virtual/job.hpp"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "tests/virtual/job_fixture.hpp"

namespace rehearse::virtual_world {
namespace {

// What a worker computes takes time before what it sends afterwards.
TEST(Job, WhatIsSentAfterAChargeLeavesWhenTheWorldHasReachedIt) {
  ConstantPhysics physics(plain_physics());
  Job job(physics);
  std::string heard;
  job.add("a", 0, [&](World& world) {
    auto endpoint = open_own(world);
    world.compute.charge({.flops = 1'000'000, .bytes = 0});
    EXPECT_EQ(micros(world), 1000) << "local time, at once";
    endpoint->send(world.net.find("b", kNever).or_throw(), Lane::control, text_message("x"))
        .or_throw();
    world.clock.sleep_until(Time(5ms));
  });
  job.add("b", 1, [&](World& world) {
    auto endpoint = open_own(world);
    heard = describe(endpoint->receive(Time(10ms)));
    heard += fmt::format(" at {}", micros(world));
  });
  EXPECT_EQ(job.run().end, RunOutcome::End::done);
  EXPECT_EQ(heard, "x at 1010");
}

// A charged worker waits, receives and stores at its own time; others go on meanwhile.
TEST(Job, AChargedWorkerDoesNothingBeforeItsTime) {
  ConstantPhysics physics(plain_physics());
  Job job(physics);
  job.add("a", 0, [&](World& world) {
    auto endpoint = open_own(world);
    world.compute.charge({.flops = 2'000'000, .bytes = 0});
    EXPECT_EQ(describe(endpoint->receive(Time(1ms))), "early") << "it had come before";
    EXPECT_EQ(micros(world), 2000);
    world.compute.charge({.flops = 1'000'000, .bytes = 0});
    world.disk.put("object", bytes_of("x")).or_throw();
    EXPECT_EQ(micros(world), 3000);
  });
  job.add("b", 1, [&](World& world) {
    auto endpoint = open_own(world);
    endpoint->send(world.net.find("a", kNever).or_throw(), Lane::control, text_message("early"))
        .or_throw();
    EXPECT_EQ(micros(world), 0);
  });
  EXPECT_EQ(job.run().end, RunOutcome::End::done);
  EXPECT_TRUE(job.on_disk("a", "object").ok());
}

// Twenty messages to each of three receivers arrive at one instant, among others that arrive
// earlier and later: each receiver has them in the order in which they were sent, whoever sent
// them.
TEST(Job, WhatArrivesAtOneInstantKeepsTheOrderOfSendingAtEachReceiver) {
  ConstantPhysics physics(plain_physics());
  Job job(physics);
  std::string sent[3], heard[3];
  int count = 0;
  for (int sender = 0; sender < 4; ++sender) {
    job.add(fmt::format("s{}", sender), sender, [&](World& world) {
      auto endpoint = open_own(world);
      for (int round = 0; round < 15; ++round) {
        const int to = round % 3;
        const std::string text(1, static_cast<char>('A' + count++));
        sent[to] += text;
        endpoint
            ->send(world.net.find(fmt::format("r{}", to), kNever).or_throw(), Lane::control,
                   text_message(text))
            .or_throw();
        world.tasks.yield();  // so that senders take turns
      }
      world.clock.sleep_until(Time(5ms));
    });
  }
  for (int receiver = 0; receiver < 3; ++receiver) {
    job.add(fmt::format("r{}", receiver), 10 + receiver, [&, receiver](World& world) {
      auto endpoint = open_own(world);
      for (int i = 0; i < 20; ++i) heard[receiver] += describe(endpoint->receive(Time(1ms)));
      EXPECT_EQ(micros(world), 10);
    });
  }
  EXPECT_EQ(job.run().end, RunOutcome::End::done);
  for (int receiver = 0; receiver < 3; ++receiver) EXPECT_EQ(heard[receiver], sent[receiver]);
}

// Offloaded work takes its time while other tasks of the worker run.
TEST(Job, OffloadedWorkTakesTimeWhileOthersRun) {
  ConstantPhysics physics(plain_physics());
  Job job(physics);
  std::string order;
  job.add("a", 0, [&](World& world) {
    world.tasks.spawn("other", Duty::foreground, [&] {
      world.clock.sleep_until(Time(1ms));
      order += "other ";
    });
    world.tasks.offload({.flops = 3'000'000, .bytes = 0}, [] {});
    order += fmt::format("work at {}", micros(world));
  });
  EXPECT_EQ(job.run().end, RunOutcome::End::done);
  EXPECT_EQ(order, "other work at 3000");
}

// A small message behind a large one of its lane waits for it; one of the other lane does not.
TEST(Job, OrderWithinALaneHoldsAcrossTransfersAndSmallMessages) {
  ConstantPhysics physics(plain_physics());
  Job job(physics);
  std::string heard;
  job.add("a", 0, [&](World& world) {
    auto endpoint = open_own(world);
    const Address b = world.net.find("b", kNever).or_throw();
    const auto bulk = std::make_shared<const Bytes>(std::size_t{1} << 20);
    Message large = text_message("large");
    large.payloads.emplace_back(bulk, *bulk);
    endpoint->send(b, Lane::data, large).or_throw();
    endpoint->send(b, Lane::data, text_message("small")).or_throw();
    endpoint->send(b, Lane::control, text_message("urgent")).or_throw();
    EXPECT_GT(endpoint->unacknowledged_bytes(b), std::size_t{1} << 20);
    world.clock.sleep_until(Time(1s));
    EXPECT_EQ(endpoint->unacknowledged_bytes(b), 0u);
  });
  job.add("b", 1, [&](World& world) {
    auto endpoint = open_own(world);
    for (int i = 0; i < 4; ++i) heard += describe(endpoint->receive(kNever)) + " ";
  });
  EXPECT_EQ(job.run().end, RunOutcome::End::done);
  EXPECT_EQ(heard, "urgent large small lost: ended ");
}

// Two that wait for each other are named at once: who, for what, since when.
TEST(Job, WorkersThatWaitForEachOtherEndTheRunWithTheWaitForGraph) {
  ConstantPhysics physics;
  Job job(physics);
  for (const std::string name : {"a", "b"}) {
    job.add(name, 0, [](World& world) {
      auto endpoint = open_own(world);
      world.tasks.spawn("service", Duty::background, [&] {
        world.tasks.park(kNever, {"requests", {}});
      });
      world.clock.sleep_until(Time(1ms));
      world.tasks.park(kNever, {"reply to add", world.self.name == "a" ? "b" : "a"});
    });
  }
  const RunOutcome outcome = job.run();
  EXPECT_EQ(outcome.end, RunOutcome::End::hung);
  ASSERT_EQ(outcome.waiting.size(), 4u);
  const WaitingTask& first = outcome.waiting[0];
  EXPECT_EQ(first.worker, "a");
  EXPECT_EQ(first.task, "main");
  EXPECT_EQ(first.what, "reply to add");
  EXPECT_EQ(first.whom, "b");
  EXPECT_EQ(first.since, Time(1ms));
  EXPECT_EQ(first.deadline, kNever);
  EXPECT_EQ(outcome.waiting[1].task, "service");
  EXPECT_EQ(outcome.waiting[1].duty, Duty::background);
}

TEST(Job, ARunEndsAtItsTimeLimit) {
  ConstantPhysics physics;
  JobOptions options;
  options.time_limit = Time(5s);
  Job job(physics, options);
  job.add("a", 0, [](World& world) { world.clock.sleep_until(Time(1h)); });
  const RunOutcome outcome = job.run();
  EXPECT_EQ(outcome.end, RunOutcome::End::timed_out);
  EXPECT_EQ(outcome.world_end, Time(5s));
  EXPECT_EQ(outcome.waiting.size(), 1u);
}

// A deadline that fires is noted with the picture of that moment.
TEST(Job, ADeadlineThatFiredIsNotedWithWhoWaitedForWhom) {
  ConstantPhysics physics;
  Job job(physics);
  job.add("a", 0, [](World& world) { world.tasks.park(Time(2s), {"reply to add", "b"}); });
  job.add("b", 1, [](World& world) {
    world.clock.sleep_until(Time(1s));
    world.events.append({EventKind::deadline_fired, 0, 0, 0});
  });
  const RunOutcome outcome = job.run();
  ASSERT_EQ(outcome.notes.size(), 1u);
  EXPECT_EQ(outcome.notes[0],
            "a deadline of b fired at 1s; waiting were:\n"
            "  a main waits for reply to add from b since 0s until 2s");
}

// A storm of seeded messages with charges: the same digests each time, others for another seed.
std::vector<std::uint64_t> digests_of_storm(std::uint64_t seed, std::size_t padding) {
  std::vector<std::unique_ptr<char[]>> other_layout;
  ConstantPhysics physics;
  JobOptions options;
  options.seed = seed;
  FaultSpec reorder;
  reorder.id = "reorder";
  reorder.kind = FaultKind::reorder;
  options.faults = {reorder};
  Job job(physics, options);
  for (int i = 0; i < 6; ++i) {
    if (padding > 0) other_layout.push_back(std::make_unique<char[]>(padding * (i + 1)));
    job.add(fmt::format("w{}", i), i / 2, [](World& world) {
      auto endpoint = open_own(world);
      Random random = Random(world.self.seed).split(world.self.name);
      for (int round = 0; round < 30; ++round) {
        world.events.step(round);
        const Address to = world.net.find(fmt::format("w{}", random.below(6)), kNever).or_throw();
        const auto large = std::make_shared<const Bytes>(random.below(40'000));
        Message message = text_message("x");
        message.payloads.emplace_back(large, *large);
        if (!endpoint->send(to, Lane::data, std::move(message)).ok()) continue;
        world.compute.charge(
            {.flops = static_cast<std::int64_t>(random.below(900'000)), .bytes = 0});
        const auto envelope = endpoint->receive(world.clock.now() + 20us);
      }
    });
  }
  const RunOutcome outcome = job.run();
  EXPECT_EQ(outcome.end, RunOutcome::End::done);
  std::vector<std::uint64_t> digests{outcome.digest};
  for (const WorkerOutcome& worker : outcome.workers) digests.push_back(worker.digest);
  return digests;
}

TEST(Job, TheSameSeedGivesTheSameDigestsInAnotherMemoryLayout) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(digests_of_storm(seed, 0), digests_of_storm(seed, 1000 + seed));
  }
  EXPECT_NE(digests_of_storm(1, 0), digests_of_storm(2, 0));
}

// The finder waits for the other worker's endpoint; a name belongs to one.
TEST(Job, FindWaitsUntilAnotherWorkerPublishes) {
  ConstantPhysics physics;
  Job job(physics);
  job.add("a", 0, [](World& world) {
    world.clock.sleep_until(Time(1s));
    auto store = world.net.open("store").or_throw();
    world.clock.sleep_until(Time(2s));
  });
  job.add("b", 1, [](World& world) {
    const Address store = world.net.find("store", Time(5s)).or_throw();
    EXPECT_EQ(world.clock.now(), Time(1s));
    EXPECT_EQ(store.worker, 0);
    EXPECT_EQ(store.endpoint, 1);
    EXPECT_EQ(world.net.publish("store", world.self.address).code(), Code::bad_argument);
    EXPECT_EQ(world.net.open("a").code(), Code::bad_argument);
  });
  EXPECT_EQ(job.run().end, RunOutcome::End::done);
}

// The last things said: messages, bytes, events are counted; nothing is left.
TEST(Job, TheOutcomeCountsWhatPassed) {
  ConstantPhysics physics;
  JobOptions options;
  options.keep_events = true;
  Job job(physics, options);
  job.add("a", 0, [](World& world) {
    auto endpoint = open_own(world);
    endpoint->send(world.net.find("b", kNever).or_throw(), Lane::control, text_message("12345"))
        .or_throw();
  });
  job.add("b", 0, [](World& world) {
    EXPECT_EQ(world.self.local_rank, 1);
    EXPECT_EQ(describe(open_own(world)->receive(kNever)), "12345");
  });
  const RunOutcome outcome = job.run();
  EXPECT_EQ(outcome.counters.at("messages"), 1);
  EXPECT_EQ(outcome.counters.at("bytes"), 5);
  EXPECT_EQ(outcome.counters.at("tasks_live"), 0);
  EXPECT_EQ(outcome.counters.at("tasks_abandoned"), 0);
  ASSERT_EQ(outcome.events.size(), 4u);  // sent, ended, received, ended
  EXPECT_EQ(outcome.events[2].event.kind, EventKind::received);
  EXPECT_GT(outcome.events[2].lamport, outcome.events[0].lamport);
  EXPECT_TRUE(outcome.workers[1].ended);
}

}  // namespace
}  // namespace rehearse::virtual_world
