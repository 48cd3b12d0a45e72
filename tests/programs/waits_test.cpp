// Where a task may wait, and what it finds again afterwards; hung jobs; what the dead leave.

#include <ATen/autocast_mode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/programs/small_job.hpp"
#include "tests/programs/torch_nodes.hpp"

namespace rehearse::programs {
namespace {

using namespace std::chrono_literals;

class Waits : public testing::TestWithParam<In> {};
INSTANTIATE_TEST_SUITE_P(InEveryWorld, Waits, testing::ValuesIn(worlds()),
                         testing::PrintToStringParamName());

// On the caller's side in a node, on the other side in a hook. Torch's engine could not go on if
// another task ran nodes in between.
TEST_P(Waits, AreRefusedInsideANodeOrHookThatAPassRuns) {
  SmallJob job;
  const auto ping = job.program.function("ping", [](int x) { return x; });
  const auto hooked = job.program.function("hooked", [ping](Worker& worker, Tensor x) {
    const Tensor y = x * leaf_of(worker);
    y.register_hook([&worker, ping](const Tensor&) { worker.rpc().call(0, ping, 1); });
    return y;
  });
  const RunOutcome outcome = job.run(GetParam(), JobSetup(2, 1), [&](Worker& worker) {
    dist_autograd::Context context(worker);
    const Tensor mine =
        on_backward(leaf_of(worker), "Mine", [&] { worker.rpc().call(1, ping, 1); });
    const auto told = [](const std::string& text) {
      return text.substr(0, text.find("; it waited for"));
    };
    say(worker, told(outcome_of([&] { context.backward(mine.sum()); })));
    const Tensor theirs = worker.rpc().call(1, hooked, leaf_of(worker));
    say(worker, told(outcome_of([&] { context.backward(theirs.sum()); })));
    say(worker, job.gradients(worker, context.id()));
  });
  EXPECT_EQ(complaints(outcome), "");
  const std::string why =
      "wait_refused: task backward passes must not wait inside a node or hook of the backward pass";
  EXPECT_EQ(said(outcome),
            (Said{"pass_failed w0: Mine: " + why, "pass_failed w1: MulBackward0: " + why, "- -"}));
}

// Each of several tasks of one worker is in a state of its own while it waits for the others.
TEST_P(Waits, KeepTorchsStateWithTheTask) {
  SmallJob job;
  const auto ping = job.program.function("ping", [](Worker&, int) {
    return std::tuple(at::GradMode::is_enabled(), c10::InferenceMode::is_enabled(),
                      at::autocast::is_autocast_enabled(at::kCPU));
  });
  const auto state = [] {
    return fmt::format("{:d}{:d}{:d}", at::GradMode::is_enabled(), c10::InferenceMode::is_enabled(),
                       at::autocast::is_autocast_enabled(at::kCPU));
  };
  const RunOutcome outcome = job.run(GetParam(), JobSetup(2, 1), [&](Worker& worker) {
    const auto wait_and_tell = [&] {
      std::string text = state() + ">";
      const auto [grad, inference, autocast] = worker.rpc().call(1, ping, 1);
      return text + state() + fmt::format(" there {:d}{:d}{:d}", grad, inference, autocast);
    };
    std::vector<Future<std::string>> tasks;
    tasks.push_back(worker.spawn("plain", wait_and_tell));
    tasks.push_back(worker.spawn("no grad", [&] {
      const at::NoGradGuard guard;
      return wait_and_tell();
    }));
    tasks.push_back(worker.spawn("inference", [&] {
      const c10::InferenceMode guard;
      return wait_and_tell();
    }));
    tasks.push_back(worker.spawn("autocast", [&] {
      at::autocast::set_autocast_enabled(at::kCPU, true);  // and never off again
      return wait_and_tell();
    }));
    tasks.push_back(worker.spawn("plain again", wait_and_tell));
    for (const auto& task : tasks) say(worker, task.wait());
    say(worker, state());
  });
  EXPECT_EQ(complaints(outcome), "");
  EXPECT_EQ(said(outcome), (Said{"100>100 there 100", "000>000 there 000", "010>010 there 000",
                                 "101>101 there 100", "100>100 there 100", "100"}));
}

// Two tasks wait inside catch blocks at once; each then rethrows what it had caught.
TEST_P(Waits, InACatchBlockLeaveTheRightExceptionCurrent) {
  SmallJob job;
  const auto ping = job.program.function("ping", [](int x) { return x; });
  const RunOutcome outcome = job.run(GetParam(), JobSetup(2, 1), [&](Worker& worker) {
    const auto task = [&](const std::string& text, int waits) {
      return [&worker, &ping, text, waits]() -> int {
        try {
          throw std::runtime_error(text);
        } catch (const std::exception&) {
          for (int i = 0; i < waits; ++i) worker.rpc().call(1, ping, i);
          throw;
        }
      };
    };
    const auto first = worker.spawn("first", task("one", 3)),
               second = worker.spawn("second", task("two", 1));
    const auto third = worker.spawn("third", task("three", 2));
    for (const auto& future : {first, second, third})
      say(worker, outcome_of([&] { future.wait(); }));
    say(worker, std::current_exception() ? "leaked" : "none");
  });
  EXPECT_EQ(complaints(outcome), "");
  EXPECT_EQ(said(outcome), (Said{"remote_exception w0: std::runtime_error: one",
                                 "remote_exception w0: std::runtime_error: two",
                                 "remote_exception w0: std::runtime_error: three", "none"}));
}

// --- hung jobs

// Each worker's handler waits for the other's: nobody can go on, nobody has a deadline.
TEST(HungJob, TellsWhoWaitsForWhat) {
  SmallJob job;
  CallOptions no_deadline;
  no_deadline.deadline = Duration::max();
  const auto never = job.program.function("never", [](Worker& worker) {
    worker.promise<int>("an answer that nobody gives").future().wait();
  });
  job.on_others = [&](Worker& worker) { worker.rpc().call(no_deadline, 0, never); };
  for (const In world : worlds()) {
    if (!is_virtual(world)) continue;  // real time cannot be known to be over
    SmallJob fresh;
    fresh.program.function("never", [](Worker& worker) {
      worker.promise<int>("an answer that nobody gives").future().wait();
    });
    fresh.on_others = job.on_others;
    const RunOutcome outcome = fresh.run(
        world, JobSetup(2, 1), [&](Worker& worker) { worker.rpc().call(no_deadline, 1, never); });
    EXPECT_EQ(outcome.end, RunOutcome::End::hung);
    std::set<std::string> lines;
    for (const WaitingTask& task : outcome.waiting) {
      lines.insert(fmt::format("{} {}: {} of {}", task.worker, task.task, task.what, task.whom));
      if (task.what.find("never") == 0) EXPECT_EQ(task.deadline, kNever);
    }
    for (const int rank : {0, 1}) {
      EXPECT_TRUE(lines.contains(fmt::format("w{} main: reply to never of w{}", rank, 1 - rank)))
          << fmt::format("{}", fmt::join(lines, "\n"));
    }
  }
}

// --- the dead

// The victim's destructors send, store, record and count; the same job with a victim that does none
// of that gives the same digest.
TEST(Killed, NothingThatAWorkersDestructorsDoIsVisible) {
  const auto digest_of = [](bool noisy) {
    SmallJob job;
    const auto mark =
        job.program.function("mark", [](Worker& worker) { ++worker.local<Leaf>().marks; });
    const auto marks =
        job.program.function("marks", [](Worker& worker) { return worker.local<Leaf>().marks; });
    struct LastWords {
      std::function<void()> speak;
      ~LastWords() { speak(); }
    };
    const auto victim = job.program.function("victim", [&](Worker& worker) {
      const LastWords words{[&worker, mark, noisy] {
        if (!noisy) return;
        say(worker, "last words");
        worker.world().events.append({EventKind::step, 0, 99, 0});
        worker.world().events.count("last words", 1);
        (void)outcome_of([&] { (void)worker.rpc().async(0, mark); });
      }};
      worker.promise<void>("its end").future().wait();
    });
    JobSetup setup(3, 1);
    setup.keep_events = true;
    setup.faults = {kill_at_event(2, EventKind::received, 1)};
    setup.faults[0].when.anchor = FaultTrigger::Anchor::time;
    setup.faults[0].when.time = Time(5ms);
    const RunOutcome outcome = job.run(In::memory, setup, [&](Worker& worker) {
      say(worker, outcome_of([&] { worker.rpc().call(2, victim); }).substr(0, 13));
      worker.rpc().call(1, mark);
      say(worker, fmt::format("{} {}", worker.rpc().call(0, marks), worker.rpc().call(1, marks)));
    });
    EXPECT_EQ(complaints(outcome, {2}), "");
    EXPECT_EQ(said(outcome), (Said{"peer_lost w2:", "0 1"}));
    EXPECT_FALSE(outcome.counters.contains("last words"));
    return outcome.digest;
  };
  EXPECT_EQ(digest_of(true), digest_of(false));
}

}  // namespace
}  // namespace rehearse::programs
