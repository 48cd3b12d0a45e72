// How jobs end: with work under way, at once, again and again; and who may use a worker.

#include <gtest/gtest.h>

#include "runtime/virtual/constant_physics.hpp"
#include "runtime/virtual/job.hpp"
#include "runtime/worker/worker_main.hpp"
#include "tests/programs/small_job.hpp"

namespace rehearse::programs {
namespace {

using namespace std::chrono_literals;

class Shutdown : public testing::TestWithParam<In> {
 protected:
  SmallJob job_;
  Function<void(int)> slow_ = job_.program.function("slow", [](Worker& worker, int length_ms) {
    worker.clock().sleep_until(worker.clock().now() + length_ms * 1ms);
  });
  Function<void()> never_ = job_.program.function(
      "never", [](Worker& worker) { return worker.promise<void>("nothing").future(); });
};
INSTANTIATE_TEST_SUITE_P(InEveryWorld, Shutdown, testing::ValuesIn(worlds()),
                         testing::PrintToStringParamName());

// Both programs return while calls that nobody waits for are under way: they are done before the
// workers end, and the end does not wait for one that never is.
TEST_P(Shutdown, FinishesWhatIsUnderWayAndIsBounded) {
  job_.on_others = [&](Worker& worker) { worker.rpc().async(0, slow_, 20); };
  JobSetup setup;
  setup.limits.linger = 300ms;
  RunOutcome outcome =
      job_.run(GetParam(), setup, [&](Worker& worker) { worker.rpc().async(1, slow_, 30); });
  EXPECT_EQ(complaints(outcome), "");
  EXPECT_EQ(outcome.counters.at("futures_live"), 0);

  SmallJob other;
  const auto never = other.program.function(
      "never", [](Worker& worker) { return worker.promise<void>("nothing").future(); });
  outcome = other.run(GetParam(), setup, [&](Worker& worker) { worker.rpc().async(1, never); });
  EXPECT_EQ(complaints(outcome), "");  // it is lost with the worker that would have answered
}

// A worker leaves while others go on: who waits for it hears that it is lost, the rest ends as
// ever.
TEST_P(Shutdown, AtOnceLetsTheOthersGoOn) {
  job_.on_others = [&](Worker& worker) {
    if (worker.rank() == 2) worker.set_shutdown(Worker::Shutdown::immediate);
  };
  const auto outcome = job_.run(GetParam(), {3, 1}, [&](Worker& worker) {
    say(worker, outcome_of([&] { worker.rpc().call(2, never_); }).substr(0, 13));
    worker.rpc().call(1, slow_, 1);
    say(worker, outcome_of([&] { worker.rpc().call(2, never_); }).substr(0, 13));
  });
  EXPECT_EQ(said(outcome), (Said{"peer_lost w2:", "peer_lost w2:"}));
  EXPECT_EQ(complaints(outcome), "");
}

// Twenty jobs after each other in one process; none hears of an older one.
TEST_P(Shutdown, CanBeFollowedByAnotherStart) {
  const int times = is_virtual(GetParam()) ? 20 : 3;
  for (int time = 0; time < times; ++time) {
    SmallJob job;
    const auto outcome = job.run(GetParam(), {2, 1}, [&](Worker& worker) {
      dist_autograd::Context context(worker);
      context.backward(worker.rpc().call(1, job.times, leaf_of(worker)).sum());
      say(worker, job.gradients(worker, context.id()));
    });
    EXPECT_EQ(said(outcome), Said{"3 2"});
    EXPECT_EQ(complaints(outcome), "");
  }
}

// A call may come at any moment of the callee's end, in 200 orders of messages.
TEST(ShutdownInAnyOrder, NeverDeadlocksWithACallThatIsUnderWay) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SmallJob job;
    JobSetup setup(3, seed);
    setup.faults = {jitter(2ms), reorder(2ms)};
    job.on_others = [&](Worker& worker) {
      if (worker.rank() == 2) worker.rpc().call(1, job.times, filled(1));
    };
    const auto outcome = job.run(In::memory, setup, [&](Worker& worker) {
      const auto unused = worker.rpc().remote(2, job.times, filled(1));
      worker.rpc().async(1, job.times, filled(1));
    });
    ASSERT_EQ(complaints(outcome), "") << "seed " << seed;
  }
}

// Only processes have other threads: what runs there must not touch the worker.
TEST(Thread, ThatIsNotTheWorkersIsToldSo) {
  SmallJob job;
  const auto outcome = job.run(In::processes, {1, 1}, [&](Worker& worker) {
    const auto ref = worker.remote_ref(1);
    std::string call, fetch;
    worker.world().tasks.offload({}, [&] {
      call = outcome_of([&] { worker.rpc().call(0, job.times, filled(1)); });
      fetch = outcome_of([&] { ref.to_here(); });
    });
    say(worker, call);
    say(worker, call == fetch ? "the same" : fetch);
    say(worker, fmt::format("{}", ref.to_here()));
  });
  EXPECT_EQ(said(outcome),
            (Said{"bad_argument -: a worker is used on another thread than its own: calls, "
                  "references and contexts belong to the tasks of one worker",
                  "the same", "1"}));
  EXPECT_EQ(complaints(outcome), "");
}

// Torch's kernels for AVX2 and AVX-512 round differently: bits from both are not compared in
// silence.
TEST(CpuClass, ThatDiffersBetweenWorkersIsARefusalByName) {
  SmallJob small;
  small.program.workload("main", [](Worker&) {});
  JobSpec job;
  job.workload = "main";
  for (const bool compared : {false, true}) {
    virtual_world::ConstantPhysics physics;
    virtual_world::JobOptions options;
    options.limits.journal_gradients = compared;
    virtual_world::Job world(physics, std::move(options));
    for (virtual_world::HostId rank = 0; rank < 3; ++rank) {
      world.add(fmt::format("w{}", rank), rank, [&, rank](World& at) {
        worker_main(at, small.program, job, nullptr, rank == 1 ? "AVX512" : "AVX2");
      });
    }
    const std::string text = complaints(world.run());
    const std::string why =
        "w0 failed: task main: gradients cannot be compared bit for bit: w1 computes "
        "with AVX512, w0 with "
        "AVX2; "
        "use CPUs of one class";
    EXPECT_EQ(text.substr(0, why.size()), compared ? why : "");
  }
}

}  // namespace
}  // namespace rehearse::programs
