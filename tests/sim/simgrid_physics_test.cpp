#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/random.hpp"
#include "runtime/fiber/scheduler.hpp"
#include "runtime/virtual/constant_physics.hpp"
#include "sim/run.hpp"
#include "tests/sim/forked.hpp"

namespace rehearse::sim {
namespace {

using namespace std::chrono_literals;
using virtual_world::ActivityId;
using virtual_world::Completion;
using virtual_world::ConstantPhysics;
using virtual_world::HostId;
using virtual_world::Physics;

constexpr std::size_t kMegabyte = 1'000'000;

Time at(Duration since_start) { return Time{} + since_start; }

std::string time_text(Time time) { return format_duration(time - Time{}); }

/// "8ms: 1 2, 9ms: 3 failed", until nothing is under way at `until`.
std::string completions_until(Physics& physics, Time until) {
  std::string text;
  for (;;) {
    std::vector<Completion> completions;
    const Time reached = physics.next(until, completions);
    if (completions.empty()) return text;
    text += (text.empty() ? "" : ", ") + time_text(reached) + ":";
    for (const Completion& done : completions) {
      text += fmt::format(" {}{}", done.activity.value, done.failed ? " failed" : "");
    }
  }
}

/// What `body` says about the physics of a cluster of `hosts`, each with 10 Gb/s and 50 us.
std::string simulated(int hosts, const std::function<std::string(Physics&)>& body) {
  return in_child([&] {
    std::string text;
    run_under_simgrid({.hosts = hosts}, [&](Physics& physics) { text = body(physics); });
    return text;
  });
}

// One flow takes latency + size / bandwidth, to the nanosecond; the model adds nothing.
TEST(SimgridPhysics, AFlowAloneTakesLatencyAndSizeByBandwidth) {
  EXPECT_EQ(simulated(2,
                      [](Physics& physics) {
                        physics.start_transfer(0, 1, 10 * kMegabyte, at(0s));
                        return completions_until(physics, at(1s));
                      }),
            "8.05ms: 1");
}

// Two flows over one link get half of it each, whether they share the sender or the receiver; the
// directions of a link do not share.
TEST(SimgridPhysics, FlowsOverOneLinkHalveIt) {
  const auto pair = [](HostId from, HostId to, HostId other_from, HostId other_to) {
    return simulated(3, [=](Physics& physics) {
      physics.start_transfer(from, to, 10 * kMegabyte, at(0s));
      physics.start_transfer(other_from, other_to, 10 * kMegabyte, at(0s));
      return completions_until(physics, at(1s));
    });
  };
  EXPECT_EQ(pair(0, 1, 0, 2), "16.05ms: 1 2");
  EXPECT_EQ(pair(0, 2, 1, 2), "16.05ms: 1 2");
  EXPECT_EQ(pair(0, 1, 1, 0), "8.05ms: 1 2");
}

// A flow that starts when another is half through: each instant's bandwidth is shared anew.
TEST(SimgridPhysics, AFlowSlowsTheOthersFromItsStartOnly) {
  EXPECT_EQ(simulated(3,
                      [](Physics& physics) {
                        physics.start_transfer(0, 1, 10 * kMegabyte, at(0s));
                        std::vector<Completion> none;
                        EXPECT_EQ(physics.next(at(4ms), none), at(4ms));
                        physics.start_transfer(0, 2, 10 * kMegabyte, at(4ms));
                        return completions_until(physics, at(1s));
                      }),
            "12.05ms: 1, 16.05ms: 2");
}

// Without contention the large and the small agree with the physics that knows no contention.
TEST(SimgridPhysics, AgreesWithConstantPhysicsWithoutContention) {
  const auto arrivals = [](Physics& physics) {
    std::string text;
    Time now = at(1ms);
    for (const std::size_t size_bytes : {0, 1, 512, 10'000, 16'383}) {
      now += 1ms;
      for (HostId pair = 0; pair < 4; ++pair) {
        text += time_text(physics.small_arrival(2 * pair, 2 * pair + 1, size_bytes, now)) + " ";
      }
      text += "\n";
    }
    return text;
  };
  ConstantPhysics constant({.latency = 50us});
  EXPECT_EQ(simulated(8, arrivals), arrivals(constant));
}

// Small messages keep the order of sending, and a network interface sends one after the other.
TEST(SimgridPhysics, SmallMessagesKeepTheNetworkInterfaceBusy) {
  EXPECT_EQ(simulated(3,
                      [](Physics& physics) {
                        const Time first = physics.small_arrival(0, 1, 12'500, at(0s));
                        const Time second = physics.small_arrival(0, 1, 125, at(0s));
                        const Time elsewhere = physics.small_arrival(0, 2, 125, at(0s));
                        const Time incast = physics.small_arrival(2, 1, 12'500, at(0s));
                        return time_text(first) + " " + time_text(second) + " " +
                               time_text(elsewhere) + " " + time_text(incast);
                      }),
            "60us 60.1us 60.2us 70.1us");
}

// Several ends within one instant are told at once, by id, whatever the order of starting.
TEST(SimgridPhysics, CompletionsOfOneInstantComeInTheOrderOfTheirIds) {
  EXPECT_EQ(simulated(8,
                      [](Physics& physics) {
                        for (const HostId from : {6, 2, 0, 4}) {
                          physics.start_transfer(from, from + 1, 10 * kMegabyte, at(0s));
                        }
                        return completions_until(physics, at(1s));
                      }),
            "8.05ms: 1 2 3 4");
}

// A cancelled flow ends silently, and what it used is there for the others.
TEST(SimgridPhysics, ACancelledFlowFreesItsShare) {
  EXPECT_EQ(simulated(3,
                      [](Physics& physics) {
                        physics.start_transfer(0, 1, 10 * kMegabyte, at(0s));
                        const ActivityId other =
                            physics.start_transfer(0, 2, 10 * kMegabyte, at(0s));
                        std::vector<Completion> none;
                        physics.next(at(8050us), none);
                        physics.cancel(other);
                        return completions_until(physics, at(1s));
                      }),
            "12.05ms: 1");
}

// Flows that touch a host that goes off fail then; later ones at once; others go on.
TEST(SimgridPhysics, FlowsOfAHostThatIsOffFail) {
  EXPECT_EQ(simulated(4,
                      [](Physics& physics) {
                        physics.start_transfer(0, 1, 10 * kMegabyte, at(0s));
                        physics.start_transfer(2, 3, 10 * kMegabyte, at(0s));
                        std::vector<Completion> none;
                        physics.next(at(1ms), none);
                        physics.set_host(1, false, 1);
                        physics.start_transfer(3, 1, kMegabyte, at(1ms));
                        std::string text = completions_until(physics, at(2ms));
                        physics.set_host(1, true, 1);
                        physics.start_transfer(3, 1, kMegabyte, at(2ms));
                        return text + "; " + completions_until(physics, at(1s));
                      }),
            "1ms: 1 failed 3 failed; 2.85ms: 4, 8.05ms: 2");
}

// A link between two hosts can be limited and delayed, and can be off.
TEST(SimgridPhysics, ALinkCanBeSlowOrOff) {
  EXPECT_EQ(simulated(3,
                      [](Physics& physics) {
                        physics.set_link(0, 1, true, 0.5, 1ms);
                        physics.start_transfer(0, 1, 10 * kMegabyte, at(0s));
                        std::string text = time_text(physics.small_arrival(0, 1, 0, at(0s)));
                        text += "; " + completions_until(physics, at(1s));
                        physics.set_link(0, 1, false, 1, 0ms);
                        physics.start_transfer(0, 1, 10 * kMegabyte, at(1s));
                        return text + "; " + completions_until(physics, at(2s));
                      }),
            "1.05ms; 17.05ms: 1; 1s: 2 failed");
}

// A computation takes the larger of flops / speed and bytes / memory bandwidth, times the
// slow-down.
TEST(SimgridPhysics, ComputingTakesTheLargerOfFlopsAndBytes) {
  EXPECT_EQ(
      simulated(2,
                [](Physics& physics) {
                  const Duration flops = physics.duration(0, {.flops = 50'000'000, .bytes = 1000});
                  const Duration bytes = physics.duration(0, {.flops = 1000, .bytes = 40'000'000});
                  physics.set_host(0, true, 2.5);
                  const Duration slow = physics.duration(0, {.flops = 50'000'000, .bytes = 0});
                  return format_duration(flops) + " " + format_duration(bytes) + " " +
                         format_duration(slow) + " " +
                         format_duration(physics.duration(1, {.flops = 50'000'000, .bytes = 0}));
                }),
      "1ms 2ms 2.5ms 1ms");
}

// `next` stops at `until`, with or without a flow, and never goes back.
TEST(SimgridPhysics, TimeStopsAtUntil) {
  EXPECT_EQ(
      simulated(2,
                [](Physics& physics) {
                  std::vector<Completion> none;
                  std::string text = time_text(physics.next(at(3ms), none));
                  physics.start_transfer(0, 1, 10 * kMegabyte, at(3ms));
                  for (const Duration until : {Duration(4ms), Duration(11ms), Duration(11049us)}) {
                    text += " " + time_text(physics.next(at(until), none));
                  }
                  EXPECT_TRUE(none.empty());
                  return text + "; " + completions_until(physics, kNever - 1h);
                }),
      "3ms 4ms 11ms 11.049ms; 11.05ms: 1");
}

/// A random load of flows that start, end and are cancelled; everything that can be seen of it.
std::string random_load(std::uint64_t seed) {
  return simulated(12, [seed](Physics& physics) {
    Random random(seed);
    Hash64 digest;
    Time now{};
    std::vector<ActivityId> started;
    for (int step = 0; step < 400; ++step) {
      const auto from = static_cast<HostId>(random.below(12)),
                 to = static_cast<HostId>(random.below(12));
      started.push_back(physics.start_transfer(from, to, 20'000 + random.below(kMegabyte), now));
      if (random.chance(0.1)) physics.cancel(started[random.below(started.size())]);
      std::vector<Completion> completions;
      now = physics.next(now + Duration(static_cast<std::int64_t>(random.below(300'000))),
                         completions);
      digest.add(static_cast<std::uint64_t>((now - Time{}).count()));
      for (const Completion& done : completions) digest.add(done.activity.value).add(done.failed);
    }
    return fmt::format("{:016x} at {}", digest.value(), time_text(now));
  });
}

// The same load in another layout of memory gives the same times and orders, to the nanosecond.
TEST(SimgridPhysics, DoesNotDependOnTheLayoutOfMemory) {
  const std::string expected = random_load(5);
  EXPECT_NE(expected, random_load(6));
  std::vector<void*> padding;
  Random random(9);
  for (int layout = 0; layout < 4; ++layout) {
    for (int block = 0; block < 2000; ++block)
      padding.push_back(std::malloc(1 + random.below(3000)));
    for (std::size_t block = 0; block < padding.size(); block += 1 + random.below(4)) {
      std::free(padding[block]);
      padding[block] = nullptr;
    }
    EXPECT_EQ(random_load(5), expected);
  }
  for (void* block : padding) std::free(block);
}

// Fibers run inside SimGrid's actor: tasks wait for flows, and exceptions stay with their tasks.
TEST(SimgridPhysics, TheSchedulerRunsInsideTheConductor) {
  struct PhysicsDriver final : fiber::Driver {
    explicit PhysicsDriver(Physics& of) : physics(of) {}
    Time now() override { return time; }
    void wait(Time next_timer) override {
      std::vector<Completion> completions;
      time = physics.next(next_timer, completions);
      for (const Completion& done : completions) ended.push_back(done.activity.value);
      under_way -= completions.size();
    }
    bool silent() const override { return under_way == 0; }
    Physics& physics;
    Time time{};
    std::vector<std::uint64_t> ended;
    std::size_t under_way = 0;
  };
  const std::string text = simulated(2, [](Physics& physics) {
    PhysicsDriver driver(physics);
    fiber::Scheduler scheduler(driver);
    const fiber::GroupId group = scheduler.new_group();
    std::string caught;
    for (int task = 0; task < 3; ++task) {
      scheduler.spawn(group, "waits", Duty::foreground, [&, task] {
        try {
          throw std::runtime_error(std::to_string(task));
        } catch (const std::runtime_error&) {
          physics.start_transfer(0, 1, kMegabyte, driver.time);
          ++driver.under_way;
          scheduler.park(driver.time + 5ms * (3 - task), {"time", {}});
          try {
            throw;
          } catch (const std::runtime_error& error) {
            caught += error.what();
          }
        }
      });
    }
    const bool done = scheduler.run() == fiber::End::done;
    return fmt::format("{} {} {} {}", done, caught, driver.ended.size(), time_text(driver.time));
  });
  EXPECT_EQ(text, "true 210 3 15ms");
}

// A second simulation in one process is refused, and says what to do.
TEST(RunUnderSimgrid, RefusesASecondRunInOneProcess) {
  const std::string text = in_child([] {
    run_under_simgrid({.hosts = 2}, [](Physics&) {});
    run_under_simgrid({.hosts = 2}, [](Physics&) {});
    return std::string("ran twice");
  });
  EXPECT_EQ(text.rfind("threw: ", 0), 0u) << text;
  EXPECT_NE(text.find("fork for each run"), std::string::npos) << text;
}

// What the body throws reaches the caller; flows under way are stopped first.
TEST(RunUnderSimgrid, LetsTheBodysExceptionOut) {
  EXPECT_EQ(in_child([]() -> std::string {
              run_under_simgrid({.hosts = 2}, [](Physics& physics) {
                physics.start_transfer(0, 1, kMegabyte, Time{});
                throw std::runtime_error("the body's own");
              });
              return "returned";
            }),
            "threw: the body's own");
}

// Thousands of hosts: every one of them can reach any other.
TEST(RunUnderSimgrid, BuildsLargePlatforms) {
  EXPECT_EQ(simulated(5000,
                      [](Physics& physics) {
                        physics.start_transfer(0, 4999, 10 * kMegabyte, at(0s));
                        physics.start_transfer(4999, 4999, 10 * kMegabyte, at(0s));
                        return completions_until(physics, at(1s));
                      }),
            "501us: 2, 8.05ms: 1");
}

}  // namespace
}  // namespace rehearse::sim
