#include "harness/overrides.hpp"

#include <gtest/gtest.h>

#include "harness/parse.hpp"
#include "tests/harness/sample_catalogue.hpp"

namespace rehearse::harness {
namespace {

Parsed with(const std::vector<std::string>& overrides) {
  return load_scenario("tests/harness/corpus/good/everything.toml", overrides, sample_catalogue());
}

std::string first_problem(const std::vector<std::string>& overrides) {
  const Parsed parsed = with(overrides);
  return parsed.problems.empty() ? std::string("accepted") : parsed.problems[0].text();
}

// A dotted name reaches tables, inline tables, and faults by their id.
TEST(Overrides, ReplaceAndAddValues) {
  const Parsed parsed =
      with({"seed=9", "job.options.hidden=64", "fault.worker-dies.when.step=6",
            "fault.slow-link.by=250ms", "name=a b", "worlds=[\"sim\"]", "expect.leaks=unchecked"});
  ASSERT_TRUE(parsed.scenario) << parsed.problems[0].text();
  EXPECT_EQ(parsed.scenario->seed, 9u);
  EXPECT_EQ(std::get<std::int64_t>(parsed.scenario->job.options.at("hidden")), 64);
  EXPECT_EQ(parsed.scenario->faults[0].when.step, 6);
  EXPECT_EQ(parsed.scenario->faults[1].by, std::chrono::milliseconds(250));
  EXPECT_EQ(parsed.scenario->name, "a b");
  EXPECT_EQ(parsed.scenario->worlds, std::vector{WorldKind::sim});
  EXPECT_FALSE(parsed.scenario->expect.leaks_checked);
}

TEST(Overrides, MakeTablesThatTheFileLeftOut) {
  const Parsed parsed = load_scenario("tests/harness/corpus/good/minimal.toml",
                                      {"cluster.link.latency=1us"}, sample_catalogue());
  ASSERT_TRUE(parsed.scenario);
  EXPECT_EQ(parsed.scenario->cluster.link_latency, std::chrono::microseconds(1));
}

// What is wrong with a value that an argument gave is said of the argument, not of the file.
TEST(Overrides, ProblemsNameTheArgument) {
  EXPECT_EQ(first_problem({"seed=x"}).find("--set seed=x: `seed` is the string \"x\""), 0u);
  EXPECT_EQ(
      first_problem({"job.options.hiden=1"}).find("--set job.options.hiden=1: unknown option"), 0u);
  EXPECT_NE(first_problem({"fault.worker-die.kind=kill"}).find("did you mean \"worker-dies\"?"),
            std::string::npos);
  EXPECT_NE(first_problem({"cluster.link.latency=250"}).find("--set cluster.link.latency=250: "),
            std::string::npos);
  EXPECT_NE(first_problem({"seed.x=1"}).find("`seed` is an integer and has no key"),
            std::string::npos);
}

TEST(Overrides, RefuseWhatIsNoAssignment) {
  for (const char* argument : {"seed", "=1", "a..b=1", ".=1", "seed="}) {
    EXPECT_NE(first_problem({argument}).find(std::string("--set ") + argument), std::string::npos);
    EXPECT_NE(first_problem({argument}).find("expected"), std::string::npos);
  }
}

// A value cannot smuggle in further keys.
TEST(Overrides, TakeOneValueOnly) {
  EXPECT_NE(first_problem({"name=\"a\"\nseed = 3"}).find("more than one value"), std::string::npos);
}

}  // namespace
}  // namespace rehearse::harness
