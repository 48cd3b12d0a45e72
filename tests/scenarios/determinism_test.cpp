#include <gtest/gtest.h>

#include "tests/scenarios/command.hpp"

// That --check-determinism finds what depends on addresses or clocks, and names where.
namespace rehearse::scenarios {
namespace {

class NotDeterministic : public testing::TestWithParam<std::string> {};

// A workload that makes as many calls as an address, or the clock, says. By chance both runs may
// agree, once in 61 times: three seeds at least once.
TEST_P(NotDeterministic, IsReportedWithTheFirstEventThatDiffers) {
  const Folder folder;
  int found = 0;
  for (const std::string seed : {"1", "2", "3"}) {
    const Ended ended = odd({"run", folder.scenario(GetParam(), 2), "--world", "memory", "--seed",
                             seed, "--check-determinism", "--json", "-"});
    if (ended.code == 0) continue;
    ++found;
    EXPECT_EQ(ended.code, 4) << ended.err;
    const auto report = ended.json();
    EXPECT_EQ(report["verdict"], "not_deterministic");
    const std::string cause = report["first_cause"];
    EXPECT_TRUE(cause.find("deterministic: event ") != std::string::npos) << cause;
    EXPECT_TRUE(cause.find(" of w") != std::string::npos) << cause;
    EXPECT_TRUE(ended.says("--check-determinism")) << ended.err;
  }
  EXPECT_GE(found, 1);
}

INSTANTIATE_TEST_SUITE_P(Odd, NotDeterministic, testing::Values("by_address", "by_clock"));

// The same in all worlds, on a scenario with faults: nothing differs.
TEST(Determinism, ASecondRunIsTheSameInEveryWorld) {
  const std::string reordered = "scenarios/smoke/reordered.toml";
  const Ended ended = rehearse({"run", reordered, "--check-determinism", "--json", "-"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  for (const auto& run : ended.json()["runs"]) {
    EXPECT_EQ(run["checks"].back()["name"], "deterministic");
    EXPECT_EQ(run["checks"].back()["verdict"], "passed") << run["world"];
  }
}

}  // namespace
}  // namespace rehearse::scenarios
