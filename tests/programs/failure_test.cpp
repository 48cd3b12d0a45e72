// What a failure leaves behind: a node that throws, a worker that dies at any moment, a deadline.

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/programs/small_job.hpp"
#include "tests/programs/torch_nodes.hpp"

namespace rehearse::programs {
namespace {

using namespace std::chrono_literals;

class Failing : public testing::TestWithParam<In> {};
INSTANTIATE_TEST_SUITE_P(InEveryWorld, Failing, testing::ValuesIn(worlds()),
                         testing::PrintToStringParamName());

// The node on worker 2 throws as long as its mark is set. A pass before it has left gradients; they
// must stand as they were, and the same graph must run once the node has thought better of it.
TEST_P(Failing, ANodeThatThrowsLeavesAllContextsAsBefore) {
  SmallJob job;
  const auto fragile = job.program.function("fragile", [](Worker& worker, Tensor x) {
    return on_backward(x * leaf_of(worker), "Fragile", [&worker] {
      if (worker.local<Leaf>().marks > 0) throw std::runtime_error("it broke");
    });
  });
  const auto mark = job.program.function(
      "mark", [](Worker& worker, int marks) { worker.local<Leaf>().marks = marks; });
  const RunOutcome outcome = job.run(GetParam(), JobSetup(3, 1), [&](Worker& worker) {
    dist_autograd::Context context(worker);
    const Tensor there = worker.rpc().call(1, job.times, leaf_of(worker));
    const Tensor loss = worker.rpc().call(2, fragile, there).sum();
    dist_autograd::BackwardOptions again;
    again.retain_graph = true;
    context.backward(loss, again);
    say(worker, job.gradients(worker, context.id()));
    worker.rpc().call(2, mark, 1);
    for (int i = 0; i < 3; ++i) say(worker, outcome_of([&] { context.backward(loss, again); }));
    say(worker, job.gradients(worker, context.id()));
    worker.rpc().call(2, mark, 0);
    context.backward(loss);
    say(worker, job.gradients(worker, context.id()));
  });
  EXPECT_EQ(complaints(outcome), "");
  const std::string broke = "pass_failed w2: Fragile: it broke";
  EXPECT_EQ(said(outcome), (Said{"12 8 6", broke, broke, broke, "12 8 6", "24 16 12"}));
}

TEST_P(Failing, ANodeThatThrowsOnTheCallersSideIsNamedToo) {
  SmallJob job;
  const RunOutcome outcome = job.run(GetParam(), JobSetup(2, 1), [&](Worker& worker) {
    dist_autograd::Context context(worker);
    const Tensor root = on_backward(worker.rpc().call(1, job.times, leaf_of(worker)), "Mine",
                                    [] { throw std::runtime_error("no"); });
    say(worker, outcome_of([&] { context.backward(root.sum()); }));
    say(worker, job.gradients(worker, context.id()));
  });
  EXPECT_EQ(complaints(outcome), "");
  EXPECT_EQ(said(outcome), (Said{"pass_failed w0: Mine: no", "- -"}));
}

// Gradients are late by more than the deadline of backward.
TEST_P(Failing, ADeadlineOfBackwardNamesWhoIsNotDone) {
  SmallJob job;
  JobSetup setup(2, 1);
  setup.faults = {jitter(0s)};
  setup.faults[0].by = 400ms;
  setup.faults[0].messages = {MessageKind::grad};
  const RunOutcome outcome = job.run(GetParam(), setup, [&](Worker& worker) {
    dist_autograd::Context context(worker);
    const Tensor loss = worker.rpc().call(1, job.times, leaf_of(worker)).sum();
    dist_autograd::BackwardOptions soon;
    soon.deadline = 50ms;
    say(worker, outcome_of([&] { context.backward(loss, soon); }));
    say(worker, job.gradients(worker, context.id()));
    context.backward(loss);
    say(worker, job.gradients(worker, context.id()));
  });
  EXPECT_EQ(complaints(outcome), "");
  EXPECT_EQ(said(outcome),
            (Said{"timed_out -: the deadline of backward passed; not done: w0, w1", "- -", "3 2"}));
}

// --- death

// Two passes over one graph of three workers, whatever happens on the way: says how each ended, and
// how many passes the gradients of each worker hold.
void two_passes(SmallJob& job, Worker& worker) {
  std::string text = outcome_of([&] {
    dist_autograd::Context context(worker);
    Tensor loss;
    const auto say_gradients = [&] {
      for (int rank = 0; rank < worker.world_size(); ++rank) {
        const std::string told = outcome_of([&] {
          const Value value = worker.rpc().call(rank, job.gradient, context.id());
          const double unit = std::vector<double>{12, 8, 6}[static_cast<std::size_t>(rank)];
          say(worker, fmt::format("holds {}", value ? *value / unit : 0));
        });
        if (told != "ok") say(worker, "unheard: " + told);
      }
    };
    say(worker, "forward " + outcome_of([&] {
                  const Tensor there = worker.rpc().call(1, job.times, leaf_of(worker));
                  loss = worker.rpc().call(2, job.times, there).sum();
                }));
    if (!loss.defined()) return;
    for (int pass = 0; pass < 2; ++pass) {
      dist_autograd::BackwardOptions again;
      again.retain_graph = true;
      say(worker, "pass " + outcome_of([&] { context.backward(loss, again); }));
    }
    say_gradients();
  });
  say(worker, "end " + text);
}

struct Told {
  int good_passes = 0;
  bool all_heard = true;       // every survivor's gradients hold exactly the good passes
  bool only_peer_lost = true;  // every failure is the loss of the victim
  bool ended = false;
};

Told parse(const Said& lines, int victim) {
  Told told;
  const std::string lost = fmt::format("peer_lost w{}:", victim);
  for (const auto& line : lines) told.good_passes += line == "pass ok";
  for (const auto& line : lines) {
    if (line == "end ok") told.ended = true;
    if (line.starts_with("holds"))
      told.all_heard &= line == fmt::format("holds {}", told.good_passes);
    const std::string rest = line.substr(line.find(' ') + 1);
    if (!line.starts_with("holds") && rest != "ok") told.only_peer_lost &= rest.starts_with(lost);
  }
  return told;
}

RunOutcome run_with_kill(In world, const FaultSpec& kill) {
  SmallJob job;
  JobSetup setup(3, 1);
  setup.faults = {kill};
  return job.run(world, setup, [&](Worker& worker) { two_passes(job, worker); });
}

void expect_clean_loss(const RunOutcome& outcome, int victim, const std::string& where) {
  EXPECT_EQ(complaints(outcome, {victim}), "") << where;
  if (victim == 0) return;
  const Told told = parse(said(outcome), victim);
  EXPECT_TRUE(told.ended && told.all_heard && told.only_peer_lost)
      << where << fmt::format("\n{}", fmt::join(said(outcome), "\n"));
}

// Every event of a worker of this job is tried as the moment of its death: each message, each stage
// of a pass, each opening and closing. The caller gets the victim's name or the right gradients,
// the survivors hold exactly the passes that were reported as done, and nothing is left over.
TEST(Dying, AtEveryEventOfASmallJobIsToldAndLeavesNothing) {
  int tried = 0;
  for (const int victim : {0, 1, 2}) {
    for (const EventKind kind :
         {EventKind::sent, EventKind::received, EventKind::phase, EventKind::context_opened,
          EventKind::context_closed, EventKind::pass_started, EventKind::pass_done,
          EventKind::pass_committed, EventKind::gradients_read, EventKind::gradient}) {
      for (std::uint64_t nth = 1;; ++nth) {
        const RunOutcome outcome = run_with_kill(In::memory, kill_at_event(victim, kind, nth));
        if (outcome.faults[0].fired == 0) break;
        ++tried;
        expect_clean_loss(outcome, victim, fmt::format("w{} at {} {}", victim, name(kind), nth));
      }
    }
  }
  EXPECT_GT(tried, 100);
}

// The same in real processes, by SIGKILL, at the moments that differ most.
TEST(Dying, InProcessesIsToldToo) {
  std::vector<FaultSpec> moments;
  for (const EventKind kind :
       {EventKind::context_opened, EventKind::pass_started, EventKind::pass_done,
        EventKind::pass_committed, EventKind::gradients_read}) {
    moments.push_back(kill_at_event(1, kind, 1));
  }
  moments.push_back(kill_at_event(2, EventKind::pass_done, 2));
  moments.push_back(kill_at_event(2, EventKind::sent, 3));
  moments.push_back(kill_at_event(0, EventKind::pass_started, 1));
  for (const FaultSpec& kill : moments) {
    for (const In world : {In::processes, In::processes_shm}) {
      const RunOutcome outcome = run_with_kill(world, kill);
      EXPECT_EQ(outcome.faults[0].fired, 1U);
      const auto victim = static_cast<std::size_t>(kill.who.ranks[0]);
      EXPECT_EQ(outcome.workers[victim].signal, 9);
      expect_clean_loss(outcome, kill.who.ranks[0], std::string(name(kill.when.event)));
    }
  }
}

// 0 calls 1, which calls 2, which calls 3 and dies there: both see the name of the dead.
TEST_P(Failing, AWorkerThatDiesInTheMiddleOfNestedCallsIsNamedToAllBeforeIt) {
  SmallJob job;
  const auto relay = job.program.function("relay", [&](Worker& worker, Tensor x) {
    const std::string seen = outcome_of([&] { worker.rpc().call(2, job.pass_on, x, 1); });
    return seen.substr(0, seen.find(':'));
  });
  JobSetup setup(4, 1);
  setup.faults = {kill_at_event(2, EventKind::sent, 1)};
  const RunOutcome outcome = job.run(GetParam(), setup, [&](Worker& worker) {
    dist_autograd::Context context(worker);
    say(worker, worker.rpc().call(1, relay, leaf_of(worker)));
    const std::string seen =
        outcome_of([&] { worker.rpc().call(1, job.pass_on, leaf_of(worker), 2); });
    say(worker, seen.substr(0, seen.find(':')));
  });
  EXPECT_EQ(complaints(outcome, {2}), "");
  EXPECT_EQ(said(outcome), (Said{"peer_lost w2", "peer_lost w2"}));
}

// The participants died before backward began: it says so at once.
TEST_P(Failing, WorkersThatDieBeforeBackwardAreNamedByIt) {
  SmallJob job;
  JobSetup setup(4, 1);
  setup.faults = {kill_at_event(3, EventKind::received, 2)};
  const RunOutcome outcome = job.run(GetParam(), setup, [&](Worker& worker) {
    dist_autograd::Context context(worker);
    const Tensor loss = worker.rpc().call(3, job.times, leaf_of(worker)).sum();
    say(worker,
        outcome_of([&] { worker.rpc().call(3, job.gradient, ContextId{0}); }).substr(0, 13));
    say(worker, outcome_of([&] { context.backward(loss); }).substr(0, 13));
    context.backward(worker.rpc().call(2, job.times, leaf_of(worker)).sum());
    say(worker, fmt::format("{}", gradient_of(worker, context.id()).value()));
  });
  EXPECT_EQ(complaints(outcome, {3}), "");
  EXPECT_EQ(said(outcome), (Said{"peer_lost w3:", "peer_lost w3:", "4"}));
}

// What goes wrong in a nested call, forward or backward, comes out at the root, its worker named
// once.
TEST_P(Failing, AnErrorInANestedCallReachesTheRootWithItsWorker) {
  SmallJob job;
  const auto misfit =
      job.program.function("misfit", [](Tensor x) { return x + at::zeros({3}, at::kDouble); });
  const auto train = job.program.function("train", [&](Worker& worker, Tensor x) {
    const Tensor y = on_backward(worker.rpc().call(2, job.times, x), "Inner",
                                 [] { throw std::runtime_error("no"); });
    worker.current_context()->backward(y.sum());
  });
  const RunOutcome outcome = job.run(GetParam(), JobSetup(3, 1), [&](Worker& worker) {
    dist_autograd::Context context(worker);
    const std::string forward = outcome_of([&] { worker.rpc().call(2, misfit, leaf_of(worker)); });
    say(worker, forward.substr(0, forward.find(':')));
    say(worker, outcome_of([&] { worker.rpc().call(1, train, leaf_of(worker)); }));
    context.backward(worker.rpc().call(1, job.times, leaf_of(worker)).sum());
    say(worker, job.gradients(worker, context.id()));
  });
  EXPECT_EQ(complaints(outcome), "");
  EXPECT_EQ(said(outcome), (Said{"remote_exception w2", "pass_failed w1: Inner: no", "3 2 -"}));
}

// COMMIT is late by more than `Limits::verdict`: reading says so, and again works once it is there.
TEST_P(Failing, ReadingGradientsOfAPassThatIsNotDecidedEndsAtItsDeadline) {
  SmallJob job;
  JobSetup setup(2, 1);
  setup.limits.verdict = 40ms;
  setup.faults = {jitter(0s)};
  setup.faults[0].by = 150ms;
  setup.faults[0].messages = {MessageKind::commit};
  const RunOutcome outcome = job.run(GetParam(), setup, [&](Worker& worker) {
    dist_autograd::Context context(worker);
    context.backward(worker.rpc().call(1, job.times, leaf_of(worker)).sum());
    std::string first = outcome_of([&] { worker.rpc().call(1, job.gradient, context.id()); });
    say(worker, first);
    for (std::string next = first; next == first;)
      next = outcome_of([&] { worker.rpc().call(1, job.gradient, context.id()); });
    say(worker, job.gradients(worker, context.id()));
  });
  EXPECT_EQ(complaints(outcome), "");
  EXPECT_EQ(
      said(outcome),
      (Said{"timed_out w1: get_gradients: a pass was not decided before the deadline", "3 2"}));
}

// Three workers run a pass of one context at once, several times: the creator gives the turn.
TEST_P(Failing, SeveralInitiatorsOfOneContextTakeTurns) {
  SmallJob job;
  const auto passes = job.program.function("passes", [&](Worker& worker, Tensor x) {
    const Tensor loss = (worker.rpc().call((worker.rank() + 1) % 3, job.times, x)).sum();
    for (int i = 0; i < 5; ++i) worker.current_context()->backward(loss, {.retain_graph = true});
  });
  const RunOutcome outcome = job.run(GetParam(), JobSetup(3, 1), [&](Worker& worker) {
    dist_autograd::Context context(worker);
    std::vector<Future<void>> all;
    for (int rank = 0; rank < 3; ++rank)
      all.push_back(worker.rpc().async(rank, passes, leaf_of(worker)));
    for (const auto& one : all) one.wait();
    say(worker, job.gradients(worker, context.id()));
  });
  EXPECT_EQ(complaints(outcome), "");
  // x·l1, x·l2 and x·l0 with x = l0 = 2: 5 · (3 + 4 + 2 + 2), 5 · 2, 5 · 2.
  EXPECT_EQ(said(outcome), Said{"55 10 10"});
}

// All that is open to a lost worker fails at once, not at its deadline (which is never).
TEST_P(Failing, ALostPeerFailsAllPendingFuturesAtOnce) {
  SmallJob job;
  const auto never = job.program.function(
      "never", [](Worker& worker) { worker.promise<void>("nothing").future().wait(); });
  JobSetup setup(2, 1);
  setup.faults = {kill_at_event(1, EventKind::received, 20)};
  const RunOutcome outcome = job.run(GetParam(), setup, [&](Worker& worker) {
    std::vector<Future<void>> futures;
    CallOptions no_deadline;
    no_deadline.deadline = Duration::max();
    for (int i = 0; i < 20; ++i) futures.push_back(worker.rpc().async(no_deadline, 1, never));
    int lost = 0;
    for (const auto& future : futures)
      lost += outcome_of([&] { future.wait(); }).starts_with("peer_lost w1:");
    say(worker, fmt::format("{}", lost));
    say(worker, outcome_of([&] { worker.rpc().call(1, never); }).substr(0, 13));
  });
  EXPECT_EQ(complaints(outcome, {1}), "");
  EXPECT_EQ(said(outcome), (Said{"20", "peer_lost w1:"}));
}

}  // namespace
}  // namespace rehearse::programs
