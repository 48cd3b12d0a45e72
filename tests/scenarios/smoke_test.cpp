#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "tests/scenarios/command.hpp"

namespace rehearse::scenarios {
namespace {

using nlohmann::json;

const std::set<std::string> kWorlds = {"sim", "memory", "processes"};

json report_of(std::vector<std::string> arguments, int& code) {
  const Folder folder;
  const std::string file = folder.path("report.json");
  arguments.insert(arguments.end(), {"--json", file});
  const Ended ended = rehearse(arguments);
  code = ended.code;
  std::ifstream stream(file);
  if (!stream) return json::object({{"runs", json::array()}, {"output", ended.out + ended.err}});
  return json::parse(stream);
}

// All smoke scenarios, once for all tests of this file.
class Smoke : public testing::Test {
 protected:
  static void SetUpTestSuite() { report_ = report_of({"run", "scenarios/smoke"}, code_); }

  static bool completes(const json& run) {
    for (const auto& check : run["checks"]) {
      if (check["name"] == "outcome") return check["expected"] == "every worker finishes";
    }
    return false;
  }

  static inline int code_ = -1;
  static inline json report_;
};

// Each file, in each of the worlds that it names, is as it expects.
TEST_F(Smoke, EveryFilePassesInEachOfItsWorlds) {
  EXPECT_EQ(code_, 0);
  EXPECT_GE(report_["runs"].size(), 40u) << report_.dump(2);
  for (const auto& run : report_["runs"]) {
    EXPECT_EQ(run["verdict"], "passed")
        << run["file"] << " in " << run["world"] << ": " << run["first_cause"] << "\n"
        << run["wait_graph"].dump(2);
  }
}

// The journal of gradients of a file that completes is the same in all three worlds, also where the
// file does not name one of them.
TEST_F(Smoke, GradientsAreTheSameInAllWorlds) {
  std::map<std::string, std::map<std::string, std::string>> digests;  // file -> world -> digest
  std::map<std::string, std::string> finals;
  for (const auto& run : report_["runs"]) {
    if (!completes(run)) continue;
    EXPECT_GT(run["gradients"]["compared"], 0) << run["file"];
    digests[run["file"]][run["world"]] = run["gradients"]["digest"];
  }
  EXPECT_GE(digests.size(), 10u);
  for (auto& [file, of_world] : digests) {
    for (const auto& world : kWorlds) {
      if (of_world.contains(world)) continue;
      int code = -1;
      of_world[world] =
          report_of({"run", file, "--world", world, "--force"}, code)["gradients"]["digest"];
      EXPECT_EQ(code, 0) << file << " in " << world;
    }
    EXPECT_EQ(of_world["memory"], of_world["sim"]) << file;
    EXPECT_EQ(of_world["processes"], of_world["sim"]) << file;
  }
}

// Every worker that a scenario kills is seen to be killed, and nobody else is: each kill of these
// files is of one worker.
TEST_F(Smoke, OnlyThoseDieThatAreKilled) {
  int killed = 0, kills = 0;
  for (const auto& run : report_["runs"]) {
    if (run["world"] != "processes") continue;
    for (const auto& fault : run["faults"]) kills += fault["kind"] == "kill" ? 1 : 0;
    for (const auto& worker : run["workers"]) {
      if (worker["signal"] == 0) continue;
      EXPECT_EQ(worker["signal"], 9) << run["file"];
      EXPECT_FALSE(completes(run)) << run["file"] << " " << worker.dump();
      ++killed;
    }
  }
  EXPECT_EQ(killed, kills);
  EXPECT_GT(kills, 0);
}

}  // namespace
}  // namespace rehearse::scenarios
