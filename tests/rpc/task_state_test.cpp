#include "runtime/rpc/task_state.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/fiber/scheduler.hpp"

namespace rehearse::rpc {
namespace {

/// Time passes only when everybody waits.
class FakeDriver final : public fiber::Driver {
 public:
  Time now() override { return now_; }
  void wait(Time next_timer) override { now_ = next_timer; }
  bool silent() const override { return true; }

 private:
  Time now_{};
};

class TaskStateTest : public testing::Test {
 protected:
  fiber::GroupId worker(TorchTaskState& hook) {
    const fiber::GroupId group = scheduler_.new_group();
    scheduler_.add_hook(group, hook);
    return group;
  }
  TaskId spawn(fiber::GroupId group, std::function<void()> body) {
    return scheduler_.spawn(group, "task", Duty::foreground, std::move(body));
  }
  void run() {
    scheduler_.on_failure = [&](fiber::GroupId, const std::string&, std::exception_ptr) {
      ++failures_;
    };
    ASSERT_EQ(scheduler_.run(), fiber::End::done);
  }
  /// Lets every other task that is ready run.
  void others_run() { scheduler_.yield(); }

  FakeDriver driver_;
  fiber::Scheduler scheduler_{driver_};
  TorchTaskState first_{[](TaskId) { return 1; }};
  TorchTaskState second_{[](TaskId) { return 2; }};
  int failures_ = 0;
};

/// What a task sees of torch's state.
struct Seen {
  bool grad = c10::GradMode::is_enabled();
  bool inference = c10::InferenceMode::is_enabled();
  bool autocast = at::autocast::is_autocast_enabled(at::kCPU);
  bool operator==(const Seen&) const = default;
};
constexpr auto kAutocast = at::kCPU;

// A guard held across a wait by one task is not seen by another, of its worker or of one that
// shares the thread, nor outside; and its holder finds it again.
TEST_F(TaskStateTest, GuardsHeldAcrossAWaitStayWithTheirTask) {
  const fiber::GroupId left = worker(first_), right = worker(second_);
  std::vector<Seen> holders, others;
  spawn(left, [&] {
    const at::NoGradGuard guard;
    for (int turn = 0; turn < 3; ++turn) others_run(), holders.push_back({});
  });
  spawn(right, [&] {
    const c10::InferenceMode guard;
    for (int turn = 0; turn < 3; ++turn) others_run(), holders.push_back({});
  });
  spawn(right, [&] {
    at::autocast::set_autocast_enabled(kAutocast, true);
    for (int turn = 0; turn < 3; ++turn) others_run(), holders.push_back({});
  });
  for (const fiber::GroupId group : {left, right}) {
    spawn(group, [&] {
      for (int turn = 0; turn < 4; ++turn) others.push_back({}), others_run();
    });
  }
  run();
  const Seen no_grad{false, false, false}, inference{false, true, false},
      autocast{true, false, true};
  EXPECT_EQ(holders, (std::vector{no_grad, inference, autocast, no_grad, inference, autocast,
                                  no_grad, inference, autocast}));
  EXPECT_EQ(others, std::vector<Seen>(8, Seen{true, false, false}));
  EXPECT_EQ(Seen(), (Seen{true, false, false}));
}

// Inference mode is more than a flag: tensors made under it are of another kind.
TEST_F(TaskStateTest, OperationsFollowTheTasksOwnMode) {
  const fiber::GroupId group = worker(first_);
  bool inside = false, beside = true, history = false;
  spawn(group, [&] {
    const c10::InferenceMode guard;
    others_run();
    inside = at::ones({1}).is_inference();
  });
  spawn(group, [&] {
    const at::Tensor leaf = at::ones({1}).requires_grad_();
    others_run();
    const at::Tensor result = leaf.mul(2);
    beside = result.is_inference();
    history = result.requires_grad();
  });
  run();
  EXPECT_TRUE(inside);
  EXPECT_FALSE(beside);
  EXPECT_TRUE(history);
}

// A task is born with the state of the place that spawned it, also from outside any task.
TEST_F(TaskStateTest, ATaskInheritsWhereItIsSpawned) {
  const fiber::GroupId group = worker(first_);
  std::vector<bool> grad;
  spawn(group, [&] {
    {
      const at::NoGradGuard guard;
      spawn(group, [&] { grad.push_back(c10::GradMode::is_enabled()); });
    }
    spawn(group, [&] { grad.push_back(c10::GradMode::is_enabled()); });
  });
  {
    const at::NoGradGuard guard;
    spawn(group, [&] { grad.push_back(c10::GradMode::is_enabled()); });
  }
  run();
  EXPECT_EQ(grad, (std::vector{false, false, true}));
}

// What only torch's full save and restore covers: a callback for one thread becomes one for one
// task.
TEST_F(TaskStateTest, ThreadLocalCallbacksBelongToTheirTask) {
  static thread_local int calls = 0;
  const fiber::GroupId left = worker(first_), right = worker(second_);
  int within = 0;
  spawn(left, [&] {
    const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(
        [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
          ++calls;
          return nullptr;
        }));
    others_run();
    const int before = calls;
    at::ones({1});
    within = calls - before;
    others_run();
    at::removeCallback(handle);
  });
  int beside = 0;
  for (const fiber::GroupId group : {left, right}) {
    spawn(group, [&] {
      const int before = calls;
      at::ones({1});
      others_run();
      const int between = calls;
      at::ones({1});
      beside += calls - between;
      EXPECT_GE(between, before);
    });
  }
  run();
  EXPECT_GT(within, 0);
  EXPECT_EQ(beside, 0);
  EXPECT_FALSE(at::hasThreadLocalCallbacks());
}

// An exception that passes a guard restores the state of its own task only.
TEST_F(TaskStateTest, AnExceptionThatPassesAGuardLeavesOthersAlone) {
  const fiber::GroupId group = worker(first_);
  std::vector<bool> caught, beside;
  spawn(group, [&] {
    try {
      const at::NoGradGuard guard;
      others_run();
      throw std::runtime_error("in the middle");
    } catch (const std::runtime_error&) {
      others_run();
      caught.push_back(c10::GradMode::is_enabled());
    }
  });
  spawn(group, [&] {
    const c10::AutoGradMode guard(false);
    others_run();
    beside.push_back(c10::GradMode::is_enabled());
    others_run();
    throw std::runtime_error("out of the task");
  });
  run();
  EXPECT_EQ(failures_, 1);
  EXPECT_EQ(caught, std::vector{true});
  EXPECT_EQ(beside, std::vector{false});
  EXPECT_TRUE(c10::GradMode::is_enabled());
}

// The depth of nested autocast regions is a counter of the thread in torch: one task's end must not
// count as another's, nor may casts that one task cached be found by another.
TEST_F(TaskStateTest, AutocastRegionsAreCountedPerTask) {
  const fiber::GroupId group = worker(first_);
  std::vector<int> depths;
  const auto region = [&] {
    at::autocast::set_autocast_enabled(kAutocast, true);
    at::autocast::increment_nesting();
    const at::Tensor weight = at::ones({2, 2}).requires_grad_();
    at::matmul(weight, weight);
    others_run();
    depths.push_back(at::autocast::decrement_nesting());
    at::autocast::clear_cache();
  };
  spawn(group, region);
  spawn(group, region);
  run();
  EXPECT_EQ(depths, (std::vector{0, 0}));
  at::autocast::increment_nesting();
  EXPECT_EQ(at::autocast::decrement_nesting(), 0);
}

// A task's random numbers depend on its seed alone: the same alone, interleaved, and in another
// order; different between seeds; and the generator outside is untouched.
TEST_F(TaskStateTest, RandomStreamsDoNotDependOnInterleaving) {
  const auto streams_of = [](const std::vector<std::uint64_t>& seeds, bool interleaved) {
    FakeDriver driver;
    fiber::Scheduler scheduler(driver);
    TorchTaskState hook;
    const fiber::GroupId group = scheduler.new_group();
    scheduler.add_hook(group, hook);
    std::map<std::uint64_t, std::vector<float>> streams;
    for (const std::uint64_t seed : seeds) {
      const TaskId task = scheduler.spawn(group, "draws", Duty::foreground, [&, seed] {
        for (int draw = 0; draw < 4; ++draw) {
          streams[seed].push_back(at::randn({1}).item<float>());
          if (interleaved) scheduler.yield();
        }
      });
      hook.set_seed(task, seed);
    }
    EXPECT_EQ(scheduler.run(), fiber::End::done);
    return streams;
  };
  const auto before = at::detail::getDefaultCPUGenerator().get_state();
  const std::uint64_t high_bits_differ = 7 + (std::uint64_t{1} << 40);
  const auto alone = streams_of({7, 8, high_bits_differ}, false);
  EXPECT_EQ(alone, streams_of({high_bits_differ, 8, 7}, true));
  EXPECT_NE(alone.at(7), alone.at(8));
  EXPECT_NE(alone.at(7), alone.at(high_bits_differ));
  EXPECT_TRUE(at::detail::getDefaultCPUGenerator().get_state().equal(before));
}

// Seeding again repeats the stream, for the running task at once.
TEST_F(TaskStateTest, ASeedStartsTheStreamAgain) {
  const fiber::GroupId group = worker(first_);
  float one = 0, two = 1, three = 2;
  spawn(group, [&] {
    one = at::rand({1}).item<float>();
    at::randn({1});  // leaves a cached second sample behind
    first_.set_seed(scheduler_.current(), 1);
    two = at::rand({1}).item<float>();
    others_run();
    first_.set_seed(scheduler_.current(), 1);
    three = at::rand({1}).item<float>();
  });
  run();
  EXPECT_EQ(one, two);
  EXPECT_EQ(one, three);
}

// A hook that is added by the task that runs: its state and generator become its own there.
TEST_F(TaskStateTest, TheRunningTaskCanBeAdopted) {
  const fiber::GroupId group = scheduler_.new_group();
  const auto outside = at::detail::getDefaultCPUGenerator().get_state();
  bool grad = true;
  float drawn_there = 0;
  spawn(group, [&] {
    scheduler_.add_hook(group, first_);
    first_.adopt(scheduler_.current());
    drawn_there = at::rand({1}).item<float>();
    const at::NoGradGuard guard;
    spawn(group, [] { const c10::AutoGradMode on(true); });
    others_run();
    grad = c10::GradMode::is_enabled();
  });
  float drawn_elsewhere = 1;
  spawn(worker(second_), [&] {
    second_.set_seed(scheduler_.current(), 1);
    drawn_elsewhere = at::rand({1}).item<float>();
  });
  run();
  EXPECT_FALSE(grad);
  EXPECT_EQ(drawn_there, drawn_elsewhere);
  EXPECT_TRUE(at::detail::getDefaultCPUGenerator().get_state().equal(outside));
  EXPECT_TRUE(c10::GradMode::is_enabled());
}

}  // namespace
}  // namespace rehearse::rpc
