// Random programs in simulated and in real networks: the bits of the uncut run there too.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "tests/programs/random_programs.hpp"

namespace rehearse::programs {
namespace {

using namespace std::chrono_literals;

bool has_sim() {
  const auto all = worlds();
  return std::find(all.begin(), all.end(), In::sim) != all.end();
}

// 100 simulations of 20 programs each, since each costs a process. Some with messages that are late
// or overtake each other, some with provenance that must be asked for.
RC_GTEST_PROP(RandomProgramsInSim, HaveTheBitsOfTheUncutRun, ()) {
  if (!has_sim()) RC_DISCARD("built without SimGrid");
  const Plan plan = *plans({.programs = 20});
  const int hurt = *rc::gen::inRange(0, 4);
  PlanJob job(plan);
  JobSetup setup = job.setup();
  if (hurt == 1) setup.faults = {jitter(500us)};
  if (hurt == 2) setup.faults = {reorder(500us)};
  if (hurt == 3) {
    setup.limits.provenance_items = 1;
    setup.rare = 0.3;
  }
  const RunOutcome uncut = run_uncut(job.program(), setup);
  const RunOutcome cut = run(In::sim, job.program(), setup);
  RC_ASSERT(complaints(cut) == "");
  RC_ASSERT(!cut.journal.empty());
  RC_ASSERT(cut.journal == uncut.journal);
}

// A job of real processes for each transport, with 50 programs.
TEST(RandomProgramsInProcesses, HaveTheBitsOfTheUncutRun) {
  for (const In world : {In::processes, In::processes_shm}) {
    const auto seed = static_cast<std::uint64_t>(world);
    Random random(seed);
    Plan plan;
    do {
      plan = draw_plan(random, {.nodes_max = 40, .programs = 50});
    } while (plan.ranks() < 3);
    PlanJob job(plan);
    const RunOutcome uncut = run_uncut(job.program(), job.setup());
    const RunOutcome cut = run(world, job.program(), job.setup());
    EXPECT_EQ(complaints(cut), "");
    EXPECT_FALSE(cut.journal.empty());
    EXPECT_EQ(cut.journal == uncut.journal, true) << "seed " << seed;
  }
}

}  // namespace
}  // namespace rehearse::programs
