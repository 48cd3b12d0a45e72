#include "runtime/fiber/scheduler.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "runtime/base/error.hpp"
#include "tests/fiber/fake_driver.hpp"

namespace rehearse::fiber {
namespace {

using namespace std::chrono_literals;

class SchedulerTest : public testing::Test {
 protected:
  TaskId spawn(std::string name, std::function<void()> body, Duty duty = Duty::foreground) {
    return scheduler.spawn(group, std::move(name), duty, std::move(body));
  }
  void sleep(Duration length) {
    const Time until = driver.now() + length;
    while (scheduler.park(until, {"time", {}}) != Wake::timed_out) {
    }
  }

  FakeDriver driver;
  Scheduler scheduler{driver, {.quiet = 60s}};
  GroupId group = scheduler.new_group();
  std::string said;
};

// Two tasks wait in turn: each runs on where it stopped.
TEST_F(SchedulerTest, ATaskRunsOnWhereItWaited) {
  const TaskId first = spawn("first", [&] {
    said += "a";
    scheduler.park(kNever, {"b", {}});
    said += "c";
  });
  spawn("second", [&] {
    said += "b";
    EXPECT_TRUE(scheduler.unpark(first));
    EXPECT_FALSE(scheduler.unpark(first)) << "it is ready already";
  });
  EXPECT_EQ(scheduler.run(), End::done);
  EXPECT_EQ(said, "abc");
}

// The one trap that no test of switching alone finds: both tasks wait in a catch block.
TEST_F(SchedulerTest, AnExceptionRethrownAfterAWaitIsTheTasksOwn) {
  for (const std::string name : {"x", "y"}) {
    spawn(name, [&, name] {
      try {
        try {
          throw std::runtime_error(name);
        } catch (...) {
          scheduler.yield();
          throw;
        }
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(error.what(), name);
        said += name;
      }
    });
  }
  EXPECT_EQ(scheduler.run(), End::done);
  EXPECT_EQ(said, "xy");
}

// Deadlines fire in the order of their times, and time passes only when nobody is ready.
TEST_F(SchedulerTest, SleepersWakeInTheOrderOfTheirTimes) {
  spawn("late", [&] {
    sleep(2ms);
    said += "2";
  });
  spawn("early", [&] {
    sleep(1ms);
    said += "1";
  });
  EXPECT_EQ(scheduler.run(), End::done);
  EXPECT_EQ(said, "12");
  EXPECT_EQ(driver.now(), Time(2ms));
}

// A thousand waits of a minute that end at once leave no timer.
TEST_F(SchedulerTest, AWaitThatEndsEarlyLeavesNoTimerBehind) {
  const TaskId waiter = spawn("waiter", [&] {
    for (int i = 0; i < 1000; ++i) scheduler.park(driver.now() + 60s, {"a reply", "w1"});
  });
  spawn("waker", [&] {
    for (int i = 0; i < 1000; ++i) {
      EXPECT_TRUE(scheduler.unpark(waiter));
      EXPECT_LE(scheduler.timers(), 1u);
      scheduler.yield();
    }
  });
  EXPECT_EQ(scheduler.run(), End::done);
  EXPECT_EQ(driver.now(), Time{});
}

// A computing task yields; a woken one comes first, also if it was woken later.
TEST_F(SchedulerTest, AWokenTaskRunsBeforeOnesThatYielded) {
  const TaskId woken = spawn("woken", [&] {
    scheduler.park(kNever, {"news", {}});
    said += "w";
  });
  for (int i = 0; i < 2; ++i) {
    spawn("computes", [&] {
      scheduler.yield();
      said += "c";
    });
  }
  driver.on_poll = [&] { scheduler.unpark(woken); };
  EXPECT_EQ(scheduler.run(), End::done);
  EXPECT_EQ(said, "wcc");
}

// A cancelled task unwinds from the wait it is in, or from its next one.
TEST_F(SchedulerTest, CancelEndsThePresentOrTheNextWait) {
  const auto waits = [&](std::string name) {
    return [this, name] {
      try {
        scheduler.park(kNever, {"nothing", {}});
        said += "?";
      } catch (const Cancelled&) {
        said += name;
        throw;
      }
    };
  };
  const TaskId present = spawn("present", waits("p"));
  TaskId next;
  spawn("canceller", [&] {
    scheduler.cancel(present);
    next = spawn("next", waits("n"));
    scheduler.cancel(next);
    scheduler.cancel(next);
    EXPECT_EQ(scheduler.join(next, kNever), Wake::unparked);
    said += ".";
  });
  scheduler.on_failure = [&](auto&&...) { ADD_FAILURE() << "Cancelled is no failure"; };
  EXPECT_EQ(scheduler.run(), End::done);
  EXPECT_EQ(said, "pn.");
}

// Work on a helper thread uses the task's stack: the cancel comes after it.
TEST_F(SchedulerTest, AShieldedWaitIsNotCancelled) {
  const TaskId task = spawn("offloads", [&] {
    EXPECT_EQ(scheduler.park_shielded(Time(1s), {"work", {}}), Wake::timed_out);
    said += "worked";
    scheduler.yield();
    said += "?";
  });
  spawn("canceller", [&] {
    scheduler.cancel(task);
    EXPECT_EQ(scheduler.join(task, kNever), Wake::unparked);
  });
  EXPECT_EQ(scheduler.run(), End::done);
  EXPECT_EQ(said, "worked");
}

// The joiner sees a deadline that passes, then the end.
TEST_F(SchedulerTest, JoinEndsAtTheDeadlineOrWithTheTask) {
  const TaskId task = spawn("long", [&] { sleep(10ms); });
  spawn("joiner", [&] {
    EXPECT_EQ(scheduler.join(task, Time(5ms)), Wake::timed_out);
    EXPECT_EQ(scheduler.join(task, kNever), Wake::unparked);
    EXPECT_EQ(driver.now(), Time(10ms));
    EXPECT_EQ(scheduler.join(task, kNever), Wake::unparked) << "it has ended";
  });
  EXPECT_EQ(scheduler.run(), End::done);
}

// Refused waits throw where the program stands, with the place and what was waited for; other tasks
// and later waits are not touched.
TEST_F(SchedulerTest, ARefusedWaitNamesThePlaceAndWhatWasWaitedFor) {
  spawn("hook", [&] {
    scheduler.refuse_waits("a torch hook");
    spawn("other", [&] { sleep(1ms); });
    try {
      scheduler.park(kNever, {"reply to add", "w3"});
      ADD_FAILURE() << "it waited";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::wait_refused);
      EXPECT_NE(error.message().find("a torch hook"), std::string::npos) << error.message();
      EXPECT_NE(error.message().find("reply to add from w3"), std::string::npos);
    }
    EXPECT_THROW(scheduler.yield(), Error);
    scheduler.allow_waits();
    scheduler.yield();
    said += "on";
  });
  EXPECT_EQ(scheduler.run(), End::done);
  EXPECT_EQ(said, "on");
}

TEST_F(SchedulerTest, AWaitInADestructorDuringUnwindingEndsTheProcessWithThePlace) {
  struct Waits {
    Scheduler& scheduler;
    ~Waits() noexcept(false) { scheduler.park(kNever, {"the last reply", "w2"}); }
  };
  spawn("unlucky", [&] {
    Waits waits{scheduler};
    throw std::runtime_error("x");
  });
  EXPECT_DEATH(scheduler.run(), "unlucky waits for the last reply from w2 in a destructor");
}

// Local time: a charged worker's tasks run no further until the world has reached it.
TEST_F(SchedulerTest, NothingOfAHeldGroupRunsBeforeItsTime) {
  const GroupId other = scheduler.new_group();
  spawn("charges", [&] {
    scheduler.hold(group, Time(3ms));
    scheduler.hold(group, Time(5ms));
    said += "charged ";
    scheduler.yield();
    said += driver.now() == Time(5ms) ? "at 5" : "too early";
  });
  spawn("same worker", [&] { said += "same "; });
  scheduler.spawn(other, "other worker", Duty::foreground, [&] { said += "other "; });
  EXPECT_EQ(scheduler.run(), End::done);
  EXPECT_EQ(said, "charged other same at 5");
}

// Hooks belong to a worker: they see its tasks, with the parent, and each slice.
TEST_F(SchedulerTest, HooksSeeTheTasksOfTheirGroup) {
  struct Hook final : SwitchHook {
    std::string saw;
    void spawned(TaskId parent, TaskId) override { saw += parent.value == 0 ? "S" : "s"; }
    void resumed(TaskId) override { saw += "("; }
    void suspended(TaskId) override { saw += ")"; }
    void finished(TaskId) override { saw += "f"; }
  } hook;
  scheduler.add_hook(group, hook);
  spawn("parent", [&] {
    spawn("child", [] {});
    scheduler.yield();
  });
  scheduler.spawn(scheduler.new_group(), "foreign", Duty::foreground, [] {});
  EXPECT_EQ(scheduler.run(), End::done);
  EXPECT_EQ(hook.saw, "S(s)()f()f");
}

TEST_F(SchedulerTest, AnExceptionThatLeavesATaskIsReportedWithItsName) {
  scheduler.on_failure = [&](GroupId, const std::string& task, std::exception_ptr error) {
    said = task;
    EXPECT_THROW(std::rethrow_exception(error), std::runtime_error);
  };
  spawn("bad", [] { throw std::runtime_error("x"); });
  EXPECT_EQ(scheduler.run(), End::done);
  EXPECT_EQ(said, "bad");
}

// Ids are never used twice, although their records are.
TEST_F(SchedulerTest, AnEndedTasksIdMeansNobodyLater) {
  const TaskId first = spawn("first", [] {});
  TaskId second;
  spawn("spawner", [&] {
    second = spawn("second", [&] { scheduler.park(Time(1ms), {"time", {}}); });
    scheduler.yield();
    EXPECT_NE(first, second);
    EXPECT_FALSE(scheduler.unpark(first));
    scheduler.cancel(first);
  });
  EXPECT_EQ(scheduler.run(), End::done);
  EXPECT_EQ(driver.now(), Time(1ms)) << "the second slept to its deadline";
}

// Nothing under way and no timer: hung at once, with every waiter, background ones too.
TEST_F(SchedulerTest, ARunInWhichNothingCanHappenIsHung) {
  spawn("main", [&] { scheduler.park(kNever, {"a message", "w1"}); });
  spawn(
      "service",
      [&] {
        scheduler.park(kNever, {"a request", {}});
      },
      Duty::background);
  EXPECT_EQ(scheduler.run(), End::hung);
  const auto waiting = scheduler.waiting();
  ASSERT_EQ(waiting.size(), 2u);
  EXPECT_EQ(waiting[0].task, "main");
  EXPECT_EQ(waiting[0].reason.whom, "w1");
  EXPECT_EQ(waiting[0].deadline, kNever);
  EXPECT_EQ(waiting[1].duty, Duty::background);
}

// A heartbeat goes on for ever; the foreground has been quiet for a minute.
TEST_F(SchedulerTest, AHeartbeatKeepsNoRunAlive) {
  spawn("main", [&] { scheduler.park(kNever, {"a message", {}}); });
  spawn(
      "beat",
      [&] {
        for (;;) sleep(1s);
      },
      Duty::background);
  EXPECT_EQ(scheduler.run(), End::hung);
  EXPECT_GE(driver.now(), Time(60s));
  EXPECT_LT(driver.now(), Time(62s));
}

// A wait with a deadline far away is no hang; nor is a long computation.
TEST_F(SchedulerTest, WhoWaitsWithADeadlineOrComputesIsNotHung) {
  spawn("deadline", [&] { EXPECT_EQ(scheduler.park(Time(1h), {"x", {}}), Wake::timed_out); });
  EXPECT_EQ(scheduler.run(), End::done);

  const GroupId other = scheduler.new_group();
  const TaskId waits = spawn("waits", [&] { scheduler.park(kNever, {"a result", {}}); });
  scheduler.spawn(other, "computes", Duty::foreground, [&] {
    scheduler.hold(other, Time(3h));
    scheduler.yield();
    scheduler.unpark(waits);
  });
  EXPECT_EQ(scheduler.run(), End::done);
}

}  // namespace
}  // namespace rehearse::fiber
