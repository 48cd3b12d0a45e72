#include <fmt/format.h>

#include <stdexcept>

#include "tests/world/conformance.hpp"

namespace rehearse {
namespace {

using namespace std::chrono_literals;

// Main returns while another task waits without a deadline: it is unwound, and the worker ends
// well.
TEST_P(Conformance, MainsEndCancelsTheOtherTasks) {
  add("a", [](World& world) {
    world.tasks.spawn("service", Duty::background, [&] {
      struct AtEnd {
        World& world;
        ~AtEnd() { world.events.journal({.step = 7, .values = {}}); }
      } at_end{world};
      world.tasks.park(kNever, {"requests", {}});
    });
    world.tasks.yield();
  });
  const RunOutcome outcome = run();
  EXPECT_TRUE(outcome.workers.at(0).finished);
  ASSERT_EQ(outcome.journal.size(), 1u) << "the service task was not unwound";
  EXPECT_EQ(outcome.journal[0].step, 7);
}

// Both wait in a catch block: each gets its own exception back.
TEST_P(Conformance, AnExceptionRethrownAfterASwitchIsTheRightOne) {
  add("a", [](World& world) {
    std::string heard;
    TaskId tasks[2];
    for (int i = 0; i < 2; ++i) {
      tasks[i] = world.tasks.spawn("catches", Duty::foreground, [&, i] {
        try {
          try {
            throw std::runtime_error(fmt::format("of task {}", i));
          } catch (...) {
            world.clock.sleep_until(soon(world, 5ms));
            throw;
          }
        } catch (const std::runtime_error& error) {
          if (error.what() == fmt::format("of task {}", i)) heard += "right ";
        }
      });
    }
    for (TaskId task : tasks) world.tasks.join(task, late(world));
    leave(world, heard);
  });
  run();
  EXPECT_EQ(left("a"), "right right ");
}

std::string refusal(const std::function<void()>& wait) {
  try {
    wait();
    return "waited ";
  } catch (const Error& error) {
    const bool named = error.message().find("a callback of the test") != std::string::npos;
    return std::string(name(error.code())) + (named ? " " : "-without-place ");
  }
}

TEST_P(Conformance, EveryWaitIsRefusedUnderNoWait) {
  add("a", [](World& world) {
    auto endpoint = open_own(world);
    say(*endpoint, endpoint->address(), "already here");
    hear(*endpoint, late(world));
    std::string heard;
    {
      const NoWait no_wait(world.tasks, "a callback of the test");
      heard += refusal([&] { world.tasks.park(soon(world, 1ms), {"nothing", {}}); });
      heard += refusal([&] { world.tasks.yield(); });
      heard += refusal([&] { world.clock.sleep_until(soon(world, 1ms)); });
      heard += refusal([&] { hear(*endpoint, soon(world, 1ms)); });
      heard += refusal([&] { leave(world, "x"); });
      heard += refusal([&] { find(world, world.self.name); });
      heard += refusal([&] { world.tasks.offload({}, [] {}); });
    }
    world.tasks.yield();
    leave(world, heard);
  });
  run();
  std::string expected;
  for (int i = 0; i < 7; ++i) expected += "wait_refused ";
  EXPECT_EQ(left("a"), expected);
}

TEST_P(Conformance, ParkEndsByUnparkOrAtItsDeadline) {
  add("a", [](World& world) {
    std::string heard;
    const TaskId self = world.tasks.current();
    const Time deadline = soon(world, 5ms);
    while (world.tasks.park(deadline, {"a deadline", {}}) != Wake::timed_out) {
    }
    heard += world.clock.now() >= deadline ? "deadline " : "too early ";
    world.tasks.spawn("wakes", Duty::foreground, [&] { world.tasks.unpark(self); });
    heard += world.tasks.park(late(world), {"a wake", {}}) == Wake::unparked ? "woken" : "slept";
    leave(world, heard);
  });
  run();
  EXPECT_EQ(left("a"), "deadline woken");
}

TEST_P(Conformance, ACancelledTaskUnwindsFromItsWait) {
  add("a", [](World& world) {
    auto endpoint = open_own(world);
    std::string heard;
    const TaskId task = world.tasks.spawn("receives", Duty::background, [&] {
      try {
        hear(*endpoint, kNever);
      } catch (const Cancelled&) {
        heard += "cancelled ";
        throw;
      }
    });
    heard += world.tasks.join(task, soon(world, 5ms)) == Wake::timed_out ? "waits " : "ended ";
    world.tasks.cancel(task);
    heard += world.tasks.join(task, late(world)) == Wake::unparked ? "ended" : "still there";
    leave(world, heard);
  });
  run();
  EXPECT_EQ(left("a"), "waits cancelled ended");
}

// The result and the exception of offloaded work come back to the task that waits for it.
TEST_P(Conformance, OffloadedWorkGivesItsResultOrItsException) {
  add("a", [](World& world) {
    int result = 0;
    world.tasks.offload({.flops = 1000, .bytes = 0}, [&] { result = 42; });
    std::string heard = fmt::format("{} ", result);
    try {
      world.tasks.offload({}, [] { throw std::runtime_error("in the work"); });
    } catch (const std::runtime_error& error) {
      heard += error.what();
    }
    leave(world, heard);
  });
  run();
  EXPECT_EQ(left("a"), "42 in the work");
}

TEST_P(Conformance, ADiskKeepsWholeObjectsByName) {
  add("a", [](World& world) {
    leave(world, "1", "model/1");
    leave(world, "2", "model/2");
    leave(world, "x", "other");
    leave(world, "two", "model/2");
    world.disk.remove("model/1").or_throw();
    std::string heard(text_of(world.disk.get("model/2").or_throw()));
    heard += fmt::format(" {} {}", name(world.disk.get("model/1").code()),
                         name(world.disk.remove("nothing").code()));
    for (const std::string& object : world.disk.list("model/").or_throw()) heard += " " + object;
    leave(world, heard);
  });
  run();
  EXPECT_EQ(left("a"), "two not_found not_found model/2");
}

TEST_P(Conformance, AWorkerKnowsWhoItIs) {
  const auto body = [](World& world) {
    leave(world, fmt::format("{} {} {}", world.self.name, world.self.rank, world.self.world_size));
  };
  add("a", body);
  add("b", body);
  run();
  EXPECT_EQ(left("a"), "a 0 2");
  EXPECT_EQ(left("b"), "b 1 2");
}

}  // namespace
}  // namespace rehearse
