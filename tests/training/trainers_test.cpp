// Several trainers, and death: through the public face.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/training/optimizer_job.hpp"

namespace rehearse::training {
namespace {

using namespace std::chrono_literals;
using programs::complaints;
using programs::kill_at_event;
using programs::outcome_of;
using programs::said;

class Trainers : public testing::TestWithParam<In> {};
INSTANTIATE_TEST_SUITE_P(InEveryWorld, Trainers, testing::ValuesIn(programs::worlds()),
                         testing::PrintToStringParamName());

// Workers 0 to 2 train parameters of 3 and 4, which they name in different order; their steps cross
// on jittery links. All of them are done, each step whole.
RunOutcome run_crossing(In world, std::uint64_t seed, int steps) {
  OptimizerJob job;
  const auto train = [&](Worker& worker) {
    if (worker.rank() > 2) return;
    const std::vector<int> owners = worker.rank() == 1 ? std::vector{4, 3} : std::vector{3, 4};
    DistributedOptimizer optimizer(worker, sgd(0.25), job.parameters(worker, owners));
    for (int i = 0; i < steps; ++i) {
      dist_autograd::Context context(worker);
      // Others may step the leaves before backward: the graph must not have saved them.
      const Tensor one = worker.rpc().call(3, job.plus, programs::filled(0));
      const Tensor other = worker.rpc().call(4, job.plus, programs::filled(0));
      context.backward((one + other).sum());
      optimizer.step(context.id());
    }
  };
  job.on_others = train;
  JobSetup setup(5, seed);
  setup.keep_events = true;
  setup.faults = {programs::jitter(300us)};
  return job.run(world, setup, train);
}

/// Trainers and contexts, in the order in which this owner put their steps in place.
std::vector<std::pair<int, std::uint64_t>> order_at(const RunOutcome& outcome, int owner) {
  std::vector<std::pair<int, std::uint64_t>> order;
  for (const auto& event : outcome.events) {
    if (event.rank == owner && event.event.kind == EventKind::step_committed)
      order.emplace_back(event.event.peer, event.event.subject);
  }
  return order;
}

TEST_P(Trainers, CrossAtTwoOwnersWithoutWaitingForEachOther) {
  constexpr int kSteps = 8;
  const RunOutcome outcome = run_crossing(GetParam(), 3, kSteps);
  EXPECT_EQ(complaints(outcome), "");
  const auto order = order_at(outcome, 3);
  EXPECT_EQ(order.size(), 3u * kSteps);
  EXPECT_EQ(order_at(outcome, 4), order);  // one after another, in the same order at both
  std::map<int, int> of_trainer;
  for (const auto& [trainer, context] : order) ++of_trainer[trainer];
  EXPECT_EQ(of_trainer, (std::map<int, int>{{0, kSteps}, {1, kSteps}, {2, kSteps}}));
}

// Over some seeds, some step has to give way to an older one and is tried again.
TEST(Trainers, OfYoungerStepsGiveWayAndTryAgain) {
  std::int64_t given_up = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const RunOutcome outcome = run_crossing(In::memory, seed, 4);
    ASSERT_EQ(complaints(outcome), "") << seed;
    EXPECT_EQ(order_at(outcome, 3), order_at(outcome, 4)) << seed;
    for (int trainer = 0; trainer < 3; ++trainer)
      given_up += programs::count(outcome, trainer, EventKind::step_aborted);
  }
  EXPECT_GT(given_up, 0);
}

// --- death

// Worker 1 trains the parameters of 2 and 3. When it has ended, or is known to be lost, worker 0
// steps them too, which has to wait for what is undecided, and tells what they are worth.
RunOutcome run_with_kill(In world, const FaultSpec& kill) {
  OptimizerJob job;
  job.on_others = [&](Worker& worker) {
    if (worker.rank() != 1) return;
    say(worker, "step " + outcome_of([&] {
                  DistributedOptimizer optimizer(worker, sgd(1), job.parameters(worker, {2, 3}));
                  job.step(worker, optimizer, {2, 3});
                }));
  };
  const auto ended = job.program.function("ended", [](Worker& worker) {
    worker.promise<void>("the end of the world").future().wait();
  });
  JobSetup setup(4, 1);
  setup.faults = {kill};
  setup.limits.finish = 10s;
  return job.run(world, setup, [&](Worker& worker) {
    CallOptions soon;
    soon.deadline = 200ms;
    say(worker, "trainer " + outcome_of([&] { worker.rpc().call(soon, 1, ended); }).substr(0, 9));
    for (const int owner : {2, 3}) {
      say(worker, "late " + outcome_of([&] {
                    DistributedOptimizer late(worker, sgd(16), job.parameters(worker, {owner}));
                    job.step(worker, late, {owner});
                    say(worker,
                        fmt::format("worth {} {}", owner, worker.rpc().call(owner, job.value)));
                  }));
    }
  });
}

struct Told {
  std::map<int, bool> applied;  // by owners that could be asked
  std::string step;             // how it ended for the trainer; empty: it died
};

Told parse(const Said& lines) {
  Told told;
  for (const auto& line : lines) {
    if (line.starts_with("step ")) told.step = line.substr(5);
    if (!line.starts_with("worth ")) continue;
    const int owner = line[6] - '0';
    told.applied[owner] = std::stod(line.substr(8)) == owner + 2 - 16 - 1;
  }
  return told;
}

void expect_all_or_nothing(const RunOutcome& outcome, int victim, const std::string& where) {
  SCOPED_TRACE(where + fmt::format("\n{}", fmt::join(said(outcome), "\n")));
  EXPECT_EQ(complaints(outcome, {victim}), "");
  const Told told = parse(said(outcome));
  EXPECT_TRUE(told.applied.contains(3) && (victim == 2 || told.applied.contains(2)));
  for (const auto& [owner, applied] : told.applied) {
    EXPECT_EQ(applied, told.applied.begin()->second);
    EXPECT_TRUE(victim == 1 || applied == (told.step == "ok"));
  }
  if (victim > 1 && told.step != "ok") {
    EXPECT_TRUE(told.step.starts_with(fmt::format("peer_lost w{}:", victim)));
  }
}

// Every moment at which the trainer or an owner sends or receives is tried as the moment of its
// death: the survivors have the step, all of them, or none; the trainer is told which, with the
// name of the dead; nobody waits for ever, and nothing is left.
TEST(Dying, AtEveryMessageOfAStepIsAllOrNothing) {
  std::map<int, int> tried, applied;
  for (const int victim : {1, 2}) {
    for (const EventKind kind : {EventKind::sent, EventKind::received, EventKind::step_prepared,
                                 EventKind::step_committed}) {
      for (std::uint64_t nth = 1;; ++nth) {
        const RunOutcome outcome = run_with_kill(In::memory, kill_at_event(victim, kind, nth));
        if (outcome.faults[0].fired == 0) break;
        ++tried[victim];
        const Told told = parse(said(outcome));
        applied[victim] += !told.applied.empty() && told.applied.begin()->second;
        expect_all_or_nothing(outcome, victim,
                              fmt::format("w{} at {} {}", victim, name(kind), nth));
      }
    }
  }
  for (const int victim : {1, 2}) {
    EXPECT_GT(tried[victim], 20) << victim;
    EXPECT_GT(applied[victim], 0) << victim;
    EXPECT_LT(applied[victim], tried[victim]) << victim;
  }
}

// The same in real processes, by SIGKILL, at the moments that differ most.
TEST(Dying, InProcessesIsAllOrNothingToo) {
  for (const int victim : {1, 2}) {
    for (const EventKind kind : {EventKind::step_prepared, EventKind::step_committed}) {
      const RunOutcome outcome = run_with_kill(In::processes, kill_at_event(victim, kind, 1));
      EXPECT_EQ(outcome.faults[0].fired, 1u);
      expect_all_or_nothing(outcome, victim, fmt::format("w{} at {}", victim, name(kind)));
    }
  }
}

}  // namespace
}  // namespace rehearse::training
