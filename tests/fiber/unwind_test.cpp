#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "runtime/fiber/scheduler.hpp"
#include "tests/fiber/fake_driver.hpp"

namespace rehearse::fiber {
namespace {

using namespace std::chrono_literals;

class UnwindTest : public testing::Test {
 protected:
  void main_task(std::function<void()> body) {
    scheduler.spawn(group, "main", Duty::foreground, std::move(body));
  }
  FakeDriver driver;
  Scheduler scheduler{driver};
  GroupId group = scheduler.new_group();
  std::string said;
};

// A worker ends: its other tasks are cancelled, wherever they wait, and are gone before main goes
// on.
TEST_F(UnwindTest, DrainCancelsTheOthersAndWaitsForThem) {
  auto held = std::make_shared<int>(1);
  main_task([&] {
    for (int i = 0; i < 3; ++i) {
      scheduler.spawn(group, "service", Duty::background, [&, held] {
        for (;;) scheduler.park(kNever, {"a request", {}});
      });
    }
    scheduler.yield();
    scheduler.spawn(group, "never started", Duty::background, [&] { said += "ran"; });
    EXPECT_EQ(scheduler.drain(8), 0);
    EXPECT_EQ(held.use_count(), 1);
    EXPECT_EQ(scheduler.tasks_of(group), 1u);
  });
  EXPECT_EQ(scheduler.run(), End::done);
  EXPECT_EQ(said, "");
}

// A task that swallows Cancelled for ever is given up; the worker ends all the same.
TEST_F(UnwindTest, ATaskThatSwallowsItsCancellationIsGivenUp) {
  main_task([&] {
    scheduler.spawn(group, "stubborn", Duty::background, [&] {
      for (;;) {
        try {
          scheduler.park(kNever, {"nothing", {}});
        } catch (...) {
          said += "x";
        }
      }
    });
    scheduler.yield();
    EXPECT_EQ(scheduler.drain(3), 1);
  });
  EXPECT_EQ(scheduler.run(), End::done);
  EXPECT_EQ(said, "xxx");
  EXPECT_EQ(scheduler.unwind(8), 1);
}

// A killed worker stops in the middle of a call; after the run its stack is unwound from there.
TEST_F(UnwindTest, AClosedGroupsTasksRunNoFurtherUntilTheyAreUnwound) {
  struct Says {
    std::string& said;
    ~Says() { said += "destroyed"; }
  };
  main_task([&] {
    Says says{said};
    scheduler.close(group);
    said += "went on";
  });
  scheduler.spawn(group, "other", Duty::background, [&] { said += "ran"; });
  EXPECT_EQ(scheduler.run(), End::done);
  EXPECT_EQ(said, "");
  EXPECT_EQ(scheduler.unwind(8), 0);
  EXPECT_EQ(said, "destroyed");
}

// Waits of destructors are inert while a task is unwound after the run.
TEST_F(UnwindTest, AWaitInADestructorIsInertAfterTheRun) {
  struct Waits {
    Scheduler& scheduler;
    std::string& said;
    ~Waits() { said += scheduler.park(kNever, {"goodbye", {}}) == Wake::timed_out ? "inert" : "?"; }
  };
  main_task([&] {
    Waits waits{scheduler, said};
    scheduler.park(kNever, {"nothing", {}});
  });
  EXPECT_EQ(scheduler.run(), End::hung);
  EXPECT_EQ(scheduler.unwind(8), 0);
  EXPECT_EQ(said, "inert");
}

// A fault struck inside a destructor: nothing may be thrown there, so that stack is abandoned
// instead of ending the process.
TEST_F(UnwindTest, AStackThatCannotBeUnwoundIsAbandoned) {
  struct Dies {
    Scheduler& scheduler;
    GroupId group;
    ~Dies() { scheduler.close(group); }
  };
  main_task([&] { Dies dies{scheduler, group}; });
  EXPECT_EQ(scheduler.run(), End::done);
  EXPECT_EQ(scheduler.unwind(8), 1);
}

// The same for one that swallows what it is thrown.
TEST_F(UnwindTest, UnwindingGivesUpAfterItsTries) {
  main_task([&] {
    for (;;) {
      try {
        scheduler.park(kNever, {"nothing", {}});
      } catch (...) {
        said += "x";
      }
    }
  });
  EXPECT_EQ(scheduler.run(), End::hung);
  EXPECT_EQ(scheduler.unwind(3), 1);
  EXPECT_EQ(said, "xxxx");
}

}  // namespace
}  // namespace rehearse::fiber
