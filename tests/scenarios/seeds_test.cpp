#include <gtest/gtest.h>

#include <set>

#include "harness/parse.hpp"
#include "harness/runner/job_runner.hpp"
#include "workloads/workloads.hpp"

namespace rehearse::harness {
namespace {

constexpr int kSeeds = 200;

// A mixed scenario (a random program, everyone's messages reordered, some late, and in half of the
// seeds a worker that dies in backward), run under SimGrid in this process' child and again in a
// fresh process with other addresses: 200 seeds, every digest the same. Through the runner, so that
// libtorch is loaded once for the first runs.
TEST(Seeds, TwoHundredMixedRunsAreTheSameInAnotherMemoryLayout) {
  Program program("rehearse");
  workloads::add_all(program);
  JobRunner runner(program, REHEARSE_PROGRAM);
  std::set<std::uint64_t> digests;
  int killed = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Case run;
    run.file = "scenarios/smoke/mixed.toml";
    run.seed = seed;
    run.world = WorldKind::sim;
    run.has_oracle = false;  // bits of gradients are compared elsewhere
    const bool dies = seed % 2 == 0;
    run.overrides = {dies ? "job.steps=3" : "fault.dies.when.step=99"};
    const Parsed parsed = load_scenario(run.file, run.overrides, catalogue_of(program));
    ASSERT_TRUE(parsed.scenario);
    run.scenario = *parsed.scenario;
    const CaseResult result = runner.run_twice(run);
    ASSERT_FALSE(result.checks.empty()) << result.first_cause;
    const CheckResult& check = result.checks.back();
    EXPECT_EQ(check.name, "deterministic");
    EXPECT_EQ(check.state, CheckResult::State::passed) << "seed " << seed << ": " << check.actual;
    EXPECT_EQ(result.verdict, dies ? Verdict::passed : Verdict::not_fired)
        << seed << ": " << result.first_cause;
    digests.insert(result.outcome.digest);
    killed += result.outcome.workers[4].killed ? 1 : 0;
  }
  EXPECT_EQ(digests.size(), kSeeds);  // seeds differ, so a digest says something
  EXPECT_EQ(killed, kSeeds / 2);
}

}  // namespace
}  // namespace rehearse::harness
