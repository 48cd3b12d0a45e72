#include <gtest/gtest.h>

#include <set>

#include "tests/scenarios/command.hpp"

// Runs that wait for what never comes, and runs that never end: what is said about them.
namespace rehearse::scenarios {
namespace {

using nlohmann::json;

const json* waiting(const json& report, const std::string& worker, const std::string& what) {
  for (const auto& line : report["wait_graph"]) {
    const std::string whom = line["whom"].is_null() ? "" : line["whom"].get<std::string>();
    const std::string text = line["what"].get<std::string>() + " " + whom;
    if (line["worker"] == worker && text.find(what) != std::string::npos) return &line;
  }
  return nullptr;
}

// A promise that nobody gives: found in world time, at once, in both virtual worlds.
TEST(Hung, AForgottenPromiseIsNamedWithWhoWaitsForIt) {
  const Folder folder;
  const std::string file = folder.scenario("forgotten_promise", 2);
  for (const std::string world : {"sim", "memory"}) {
    const Ended ended = odd({"run", file, "--world", world, "--json", "-"});
    EXPECT_EQ(ended.code, 1);
    EXPECT_TRUE(ended.says("an answer that nobody gives from w1 since")) << ended.err;
    EXPECT_TRUE(ended.says("without a deadline")) << ended.err;
    const json report = ended.json();
    EXPECT_EQ(report["verdict"], "failed");
    const json* line = waiting(report, "w1", "an answer that nobody gives");
    ASSERT_NE(line, nullptr) << report["wait_graph"].dump(2);
    EXPECT_EQ((*line)["deadline_s"], nullptr);
    EXPECT_GE((*line)["since_s"], 0.0);
  }
}

// Two workers that wait for each other: the graph has both, with whom they wait for.
TEST(Hung, TwoThatWaitForEachOtherAreBothInTheGraph) {
  const Folder folder;
  const Ended ended =
      odd({"run", folder.scenario("crossed_calls", 2), "--world", "sim", "--json", "-"});
  EXPECT_EQ(ended.code, 1);
  const json report = ended.json();
  const json* first = waiting(report, "w0", "wait_with_me");
  const json* second = waiting(report, "w1", "wait_with_me");
  ASSERT_TRUE(first && second) << report["wait_graph"].dump(2);
  EXPECT_TRUE((*first)["whom"].get<std::string>().ends_with("w1"));
  EXPECT_TRUE((*second)["whom"].get<std::string>().ends_with("w0"));
}

// Processes cannot know that nothing comes any more: the time limit ends them, with the same graph.
TEST(TimedOut, ProcessesSayWhomTheyWaitFor) {
  const Folder folder;
  const Ended ended = odd({"run", folder.scenario("forgotten_promise", 2), "--world", "processes",
                           "--timeout", "6s", "--json", "-"});
  EXPECT_EQ(ended.code, 124) << ended.err;
  const json report = ended.json();
  EXPECT_EQ(report["verdict"], "timed_out");
  EXPECT_NE(waiting(report, "w1", "an answer that nobody gives"), nullptr)
      << report["wait_graph"].dump(2);
}

// World time may go on for ever: wall time ends the run, and it says who waited.
TEST(TimedOut, AnEndlessVirtualRunSaysWhoWaits) {
  const Folder folder;
  for (const std::string world : {"sim", "memory"}) {
    const Ended ended = odd({"run", folder.scenario("endless_sleep", 2), "--world", world,
                             "--timeout", "500ms", "--json", "-"});
    EXPECT_EQ(ended.code, 124) << ended.err;
    EXPECT_NE(waiting(ended.json(), "w0", ""), nullptr) << ended.out;
  }
}

// A task that never waits can only be ended from outside.
TEST(TimedOut, ARunThatComputesForEverIsEnded) {
  const Folder folder;
  const Ended ended = odd({"run", folder.scenario("endless_work", 1), "--world", "memory",
                           "--timeout", "300ms", "--json", "-"});
  EXPECT_EQ(ended.code, 124) << ended.err;
  EXPECT_EQ(ended.json()["verdict"], "timed_out");
}

}  // namespace
}  // namespace rehearse::scenarios
