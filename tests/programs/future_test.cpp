// Futures of several futures, handlers that return futures, and deadlines.

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/programs/small_job.hpp"

namespace rehearse::programs {
namespace {

using namespace std::chrono_literals;

class Futures : public testing::TestWithParam<In> {
 protected:
  Said say_in_job(int workers, SmallJob::Body body) {
    setup_.workers = workers;
    setup_.keep_events = true;
    outcome_ = job_.run(GetParam(), setup_, std::move(body));
    EXPECT_EQ(complaints(outcome_), "");
    return said(outcome_);
  }

  SmallJob job_;
  JobSetup setup_;
  RunOutcome outcome_;

  Function<int(int)> twice_ = job_.program.function("twice", [](int x) { return 2 * x; });
  /// Answers after so many milliseconds; an odd number is an error.
  Function<int(int)> slow_ = job_.program.function("slow", [](Worker& worker, int length_ms) {
    worker.clock().sleep_until(worker.clock().now() + length_ms * 1ms);
    if (length_ms % 2) throw std::runtime_error(fmt::format("odd {}", length_ms));
    return length_ms;
  });
};
INSTANTIATE_TEST_SUITE_P(InEveryWorld, Futures, testing::ValuesIn(worlds()),
                         testing::PrintToStringParamName());

TEST_P(Futures, OfAllBringTheValuesInTheirOrder) {
  const auto told = say_in_job(2, [&](Worker& worker) {
    const auto all =
        when_all<int>({worker.rpc().async(1, slow_, 40), worker.rpc().async(1, slow_, 10),
                       worker.rpc().async(1, twice_, 4)});
    say(worker, fmt::format("{}", all.wait()));
    say(worker, fmt::format("{}", all.then([](const auto& x) { return x.wait().size(); }).wait()));
    say(worker, outcome_of([] { when_all<int>({}); }));
  });
  EXPECT_EQ(told, (Said{"[40, 10, 8]", "3", "bad_argument -: there are no futures to wait for"}));
}

// The error with the lowest index comes out, though the other one came first; then nothing is left
// to come.
TEST_P(Futures, ThatAreWaitedForTogetherThrowTheFirstErrorAndLeaveNothingPending) {
  const auto told = say_in_job(2, [&](Worker& worker) {
    const std::vector<Future<int>> futures{
        worker.rpc().async(1, slow_, 2), worker.rpc().async(1, slow_, 31),
        worker.rpc().async(1, slow_, 1), worker.rpc().async(1, slow_, 60)};
    say(worker, outcome_of([&] { wait_all(futures); }));
    for (const auto& future : futures) say(worker, future.ready() ? "ready" : "pending");
  });
  EXPECT_EQ(told, (Said{"remote_exception w1: std::runtime_error: odd 31", "ready", "ready",
                        "ready", "ready"}));
}

TEST_P(Futures, OfAnyBringTheFirstThatIsComplete) {
  const auto told = say_in_job(2, [&](Worker& worker) {
    const auto any = [&](std::vector<int> lengths_ms) {
      std::vector<Future<int>> futures;
      for (const int length : lengths_ms) futures.push_back(worker.rpc().async(1, slow_, length));
      const auto [index, value] = when_any(futures).wait();
      say(worker, fmt::format("{} {}", index, value));
      for (const auto& future : futures) outcome_of([&] { future.wait(); });
      return when_any(futures).wait().first;
    };
    say(worker, fmt::format("{}", any({80, 10, 90})));
    say(worker, outcome_of([&] { any({80, 11}); }));
  });
  EXPECT_EQ(told, (Said{"1 10", "0", "remote_exception w1: std::runtime_error: odd 11"}));
}

// What a continuation throws, in what it returns too, reaches the chained future; one that returns
// a future is continued with what that brings.
TEST_P(Futures, AreContinuedThroughFuturesAndErrors) {
  const auto told = say_in_job(2, [&](Worker& worker) {
    const auto call = [&](int x) {
      return [&worker, x, this](const Future<int>& before) {
        return worker.rpc().async(1, slow_, before.wait() + x);
      };
    };
    const auto start = worker.rpc().async(1, slow_, 2);
    say(worker, fmt::format("{}", start.then(call(2)).then(call(4)).wait()));
    const auto broken = start.then(call(1)).then(call(4));
    say(worker, outcome_of([&] { broken.wait(); }));
  });
  EXPECT_EQ(told, (Said{"8", "remote_exception w1: std::runtime_error: odd 3"}));
}

// Two hundred handlers have returned futures that one later call fulfils: none keeps a task.
TEST_P(Futures, ReturnedByHandlersAreAnsweredWhenTheyComeWithoutATask) {
  struct Gate {
    std::vector<Promise<int>> waiting;
  };
  const auto pass = job_.program.function("pass", [](Worker& worker, int x) {
    auto promise = worker.promise<int>("the gate");
    worker.local<Gate>().waiting.push_back(promise);
    return x < 0 ? promise.future().then(
                       [](const Future<int>&) -> int { throw std::out_of_range("low"); })
                 : promise.future();
  });
  const auto tasks = job_.program.function(
      "tasks", [](Worker& worker) { return static_cast<int>(worker.places().tasks()); });
  const auto open = job_.program.function("open", [](Worker& worker) {
    int x = 0;
    for (const auto& promise : std::exchange(worker.local<Gate>().waiting, {})) promise.set(x++);
  });
  // A handler that answers with what another worker's handler will answer.
  const auto relay = job_.program.function(
      "relay", [pass](Worker& worker, int x) { return worker.rpc().async(1, pass, x); });
  const auto told = say_in_job(3, [&](Worker& worker) {
    const int before = worker.rpc().call(1, tasks);
    std::vector<Future<int>> futures;
    for (int i = 0; i < 200; ++i) futures.push_back(worker.rpc().async(1, pass, i));
    const auto bad = worker.rpc().async(1, pass, -1);
    say(worker, fmt::format("{} more tasks", worker.rpc().call(1, tasks) - before));
    const auto relayed = worker.rpc().async(2, relay, 7);
    const auto broken = worker.rpc().async(2, relay, -7);
    while (worker.rpc().call(1, tasks) < before || !worker.rpc().call(2, twice_, 1)) {
    }
    worker.clock().sleep_until(worker.clock().now() + 20ms);
    worker.rpc().call(1, open);
    int sum = 0;
    for (const int x : wait_all(futures)) sum += x;
    say(worker, fmt::format("{} {}", sum, relayed.wait()));
    for (const auto& future : {bad, broken}) say(worker, outcome_of([&] { future.wait(); }));
  });
  EXPECT_EQ(told, (Said{"0 more tasks", "19900 201", "remote_exception w1: std::out_of_range: low",
                        "remote_exception w1: std::out_of_range: low"}));
}

// Gradients do not depend on whether a handler waits or returns a future.
TEST_P(Futures, ReturnedByHandlersKeepTensorsConnected) {
  const auto later = job_.program.function("later", [this](Worker& worker, Tensor x) {
    const Tensor mine = x * leaf_of(worker);
    return worker.rpc().async(2, job_.times, mine).then([mine](const Future<Tensor>& theirs) {
      return theirs.wait() + mine;
    });
  });
  const auto told = say_in_job(3, [&](Worker& worker) {
    dist_autograd::Context context(worker);
    context.backward(worker.rpc().call(1, later, leaf_of(worker)).sum());
    say(worker, job_.gradients(worker, context.id()));  // 2 * 3 * 4 + 2 * 3
  });
  EXPECT_EQ(told, Said{"15 10 6"});
  EXPECT_FALSE(outcome_.journal.empty());
  EXPECT_EQ(outcome_.journal, run_uncut(job_.program, setup_).journal);
}

// The default counts for later calls that name none; a call's own beats it; `Duration::max()` is
// none, zero the default.
TEST_P(Futures, HaveTheDeadlineOfTheCallElseTheDefault) {
  const auto told = say_in_job(2, [&](Worker& worker) {
    CallOptions none, soon, standard;
    none.deadline = Duration::max();
    soon.deadline = 10ms;
    standard.deadline = Duration::zero();
    const auto tell = [&](const Future<int>& future) {
      say(worker, outcome_of([&] { future.wait(); }).substr(0, 12));
    };
    const auto before = worker.rpc().async(1, slow_, 200);
    worker.rpc().set_default_deadline(50ms);
    tell(worker.rpc().async(1, slow_, 200));
    tell(worker.rpc().async(standard, 1, slow_, 200));
    tell(worker.rpc().async(soon, 1, slow_, 30));
    tell(worker.rpc().async(none, 1, slow_, 200));
    tell(before);
    worker.rpc().set_default_deadline(Duration::max());
    tell(worker.rpc().async(1, slow_, 100));
    worker.rpc().set_default_deadline(Duration::zero());
    tell(worker.rpc().async(1, slow_, 100));
  });
  EXPECT_EQ(told, (Said{"timed_out w1", "timed_out w1", "timed_out w1", "ok", "ok", "ok", "ok"}));
}

// A deadline counts where nobody waits, too: what continues the future hears of it.
TEST_P(Futures, GiveUpAtTheirDeadlineThoughNobodyWaits) {
  const auto told = say_in_job(2, [&](Worker& worker) {
    CallOptions soon;
    soon.deadline = 10ms;
    const auto told = worker.rpc().async(soon, 1, slow_, 100).then([](const Future<int>& future) {
      return outcome_of([&] { future.wait(); });
    });
    say(worker, told.wait());
  });
  EXPECT_EQ(told, Said{"timed_out w1: no reply to slow from w1 before the deadline"});
}

}  // namespace
}  // namespace rehearse::programs
