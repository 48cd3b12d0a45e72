// Random programs over 1 to 8 workers: what the cut changes, which is nothing.

#include "tests/programs/random_programs.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace rehearse::programs {
namespace {

using namespace std::chrono_literals;

// Runs in memory; the oracle's journal must be its own.
void check_against_uncut(const Plan& plan, const JobSetup& setup) {
  PlanJob job(plan);
  const RunOutcome uncut = run_uncut(job.program(), setup);
  const RunOutcome cut = run(In::memory, job.program(), setup);
  RC_ASSERT(complaints(cut) == "");
  RC_ASSERT(!cut.journal.empty());
  RC_ASSERT(cut.journal == uncut.journal);
}

// The journal holds digests of every gradient after every pass, and of every leaf at the end.
RC_GTEST_PROP(RandomPrograms, HaveTheBitsOfTheUncutRun, ()) {
  const Plan plan = *plans({.programs = 4});
  check_against_uncut(plan, PlanJob(plan).setup());
}

// Every message is late by a random time, and messages of different pairs and lanes overtake each
// other: handlers, replies, gradients and reports come in another order in each run.
RC_GTEST_PROP(RandomPrograms, HaveTheSameBitsForEveryOrderOfMessages, ()) {
  const Plan plan = *plans({.nodes_max = 40});
  PlanJob job(plan);
  JobSetup setup = job.setup();
  const RunOutcome uncut = run_uncut(job.program(), setup);
  for (const Duration most : {Duration(20us), Duration(300us)}) {
    for (const FaultSpec& fault : {jitter(most), reorder(most)}) {
      setup.faults = {fault};
      const RunOutcome cut = run(In::memory, job.program(), setup);
      RC_ASSERT(complaints(cut) == "");
      RC_ASSERT(cut.journal == uncut.journal);
    }
  }
}

// With one item a message, what lies behind most tensors must be asked of its owner.
RC_GTEST_PROP(RandomPrograms, HaveTheSameBitsWhenProvenanceMustBeAsked, ()) {
  const Plan plan = *plans({.programs = 2});
  JobSetup setup = PlanJob(plan).setup();
  setup.limits.provenance_items = 1;
  setup.limits.executor_slice_nodes = 1;
  setup.limits.report_tree_above = 2;
  setup.rare = 0.3;
  setup.faults = {reorder(100us)};
  check_against_uncut(plan, setup);
}

// Placement: logical worker i owns its leaves wherever it lives. All on one worker, and a random
// spread, must give what one worker each gives.
RC_GTEST_PROP(RandomPrograms, HaveTheSameBitsForEveryPlacement, ()) {
  Plan plan = *plans({.programs = 2});
  const auto ranks = *rc::gen::container<std::vector<int>>(
      plan.placement.size(), rc::gen::inRange(0, static_cast<int>(plan.placement.size())));
  const auto digests = [](const Plan& placed) {
    PlanJob job(placed);
    auto lines = run(In::memory, job.program(), job.setup()).journal;
    std::erase_if(lines, [](const JournalEntry& line) { return line.step != kFinalParameters; });
    return lines;
  };
  const auto one_each = digests(plan);
  RC_ASSERT(!one_each.empty());
  for (std::size_t i = 1; i < ranks.size(); ++i) plan.placement[i] = ranks[i];
  RC_ASSERT(digests(plan) == one_each);
  plan.placement.assign(plan.placement.size(), 0);
  RC_ASSERT(digests(plan) == one_each);
}

// The gradients of the first pass go into the loss of the second, so its graph runs through the
// first pass on every worker, and through the messages of that pass.
RC_GTEST_PROP(RandomPrograms, HaveTheBitsOfTheUncutRunInTheSecondOrderToo, ()) {
  const Plan plan = *plans({.nodes_max = 30, .programs = 2});
  PlanJob job(plan, /*second_order=*/true);
  JobSetup setup = job.setup();
  const RunOutcome uncut = run_uncut(job.program(), setup);
  for (const Duration most : {Duration(0us), Duration(100us)}) {
    setup.faults = {jitter(most), reorder(most)};
    const RunOutcome cut = run(In::memory, job.program(), setup);
    RC_ASSERT(complaints(cut) == "");
    RC_ASSERT(cut.journal == uncut.journal);
  }
}

// Plain code has no identity node at the cuts, so sums associate differently: a bound, not bits.
RC_GTEST_PROP(RandomPrograms, AgreeWithPlainSingleProcessCode, ()) {
  const Plan plan = *plans({.programs = 4});
  PlanJob job(plan);
  const RunOutcome cut = run(In::memory, job.program(), job.setup());
  RC_ASSERT(complaints(cut) == "");
  RC_ASSERT(difference(job.take_gradients(), plain_gradients(plan), plan.float64) == "");
}

}  // namespace
}  // namespace rehearse::programs
