#include "app/run_command.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/app/fake_runner.hpp"
#include "tests/harness/schema_validator.hpp"

namespace rehearse::cli {
namespace {

namespace fs = std::filesystem;
using harness::WorldKind;
using nlohmann::ordered_json;

constexpr const char* kQuickstart = "scenarios/smoke/quickstart.toml";

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A folder of scenario files that is gone at the end.
class RunCommand : public testing::Test {
 protected:
  RunCommand() {
    folder_ = testing::TempDir() + "run_command_" + std::to_string(::getpid());
    fs::create_directories(folder_ + "/inner");
  }
  ~RunCommand() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    const std::string file = folder_ + "/" + name;
    std::ofstream(file) << text;
    return file;
  }
  std::string simple(const std::string& name) {
    return write(name, "format = 1\n[job]\nworkload = \"random_graph\"\n");
  }

  std::string folder_;
  Shell shell_;
};

TEST_F(RunCommand, RunsEachWorldOfTheFileInOrder) {
  EXPECT_EQ(shell_.run({"run", kQuickstart}), 0) << shell_.out << shell_.err;
  ASSERT_EQ(shell_.runner.runs.size(), 2u);
  EXPECT_EQ(shell_.runner.runs[0].world, WorldKind::sim);
  EXPECT_EQ(shell_.runner.runs[1].world, WorldKind::processes);
  EXPECT_TRUE(has(shell_.out, "2 runs: 2 passed")) << shell_.out;
}

TEST_F(RunCommand, TakesDirectoriesSortedAndFiltered) {
  simple("b.toml");
  simple("a.toml");
  simple("inner/c.toml");
  write("notes.txt", "none");
  EXPECT_EQ(shell_.run({"run", folder_}), 0);
  ASSERT_EQ(shell_.runner.runs.size(), 3u);
  EXPECT_EQ(shell_.runner.runs[0].file, folder_ + "/a.toml");
  EXPECT_EQ(shell_.runner.runs[2].file, folder_ + "/inner/c.toml");
  shell_.runner.runs.clear();
  EXPECT_EQ(shell_.run({"run", folder_, "--filter", "c*"}), 0);
  EXPECT_EQ(shell_.runner.runs.size(), 1u);
  EXPECT_EQ(shell_.run({"run", folder_, "--filter", "zzz"}), 2);
  EXPECT_TRUE(has(shell_.err, "no scenario file that matches zzz"));
}

TEST_F(RunCommand, SeedRepeatAndSetReachTheCases) {
  EXPECT_EQ(shell_.run({"run", kQuickstart, "--world", "sim", "--seed", "9", "--repeat", "3",
                        "--set", "job.options.hidden=64", "--set", "job.steps=2"}),
            0);
  ASSERT_EQ(shell_.runner.runs.size(), 3u);
  EXPECT_EQ(shell_.runner.runs[2].seed, 9u);
  EXPECT_EQ(shell_.runner.runs[2].scenario.seed, 9u);
  EXPECT_EQ(shell_.runner.runs[2].name(), "sim#3");
  EXPECT_EQ(std::get<std::int64_t>(shell_.runner.runs[0].scenario.job.options.at("hidden")), 64);
  EXPECT_EQ(shell_.runner.runs[0].scenario.job.steps, 2);
}

TEST_F(RunCommand, RandomSeedsDifferAndAreReported) {
  EXPECT_EQ(shell_.run({"run", kQuickstart, "--world", "sim", "--seed", "random", "--repeat", "2"}),
            0);
  ASSERT_EQ(shell_.runner.runs.size(), 2u);
  EXPECT_NE(shell_.runner.runs[0].seed, shell_.runner.runs[1].seed);
  EXPECT_TRUE(has(shell_.out, "seed " + std::to_string(shell_.runner.runs[1].seed)));
}

TEST_F(RunCommand, AWorldOutsideTheFileNeedsForce) {
  EXPECT_EQ(shell_.run({"run", kQuickstart, "--world", "memory"}), 2);
  EXPECT_TRUE(has(shell_.err, "does not name the world \"memory\"")) << shell_.err;
  EXPECT_TRUE(shell_.runner.runs.empty());
  EXPECT_EQ(shell_.run({"run", kQuickstart, "--world", "memory", "--force"}), 0);
  EXPECT_EQ(shell_.runner.runs.size(), 1u);
}

// One bad file among good ones: nothing is run.
TEST_F(RunCommand, ReadsAllFilesBeforeTheFirstRun) {
  simple("a.toml");
  const std::string bad = write("b.toml", "format = 1\nsed = 3\n");
  EXPECT_EQ(shell_.run({"run", folder_}), 2);
  EXPECT_TRUE(has(shell_.err, bad + ":2:1: unknown key")) << shell_.err;
  EXPECT_TRUE(shell_.runner.runs.empty());
}

TEST_F(RunCommand, ListRunsNothing) {
  EXPECT_EQ(shell_.run({"run", kQuickstart, "--list"}), 0);
  EXPECT_TRUE(has(shell_.out, "scenarios/smoke/quickstart.toml [sim] seed 1: quickstart\n"));
  EXPECT_TRUE(shell_.runner.runs.empty());
}

// A failure ends with one line that repeats it, quoted for a shell.
TEST_F(RunCommand, AFailureEndsWithTheLineThatRepeatsIt) {
  const std::string file = simple("it's.toml");
  shell_.runner.evidence = [](const harness::Case&) {
    auto evidence = harness::sample_evidence();
    evidence.outcome.journal[0].digest += 1;
    return evidence;
  };
  EXPECT_EQ(shell_.run({"run", file, "--seed", "4", "--set", "name=a b"}), 1);
  const std::string quoted = "'" + folder_ + "/it'\\''s.toml'";
  EXPECT_TRUE(
      shell_.out.ends_with("  rehearse run " + quoted + " --world sim --seed 4 --set 'name=a b'\n"))
      << shell_.out;
}

TEST_F(RunCommand, FailFastStopsAtTheFirstFailure) {
  simple("a.toml");
  simple("b.toml");
  shell_.runner.evidence = [](const harness::Case&) {
    auto evidence = harness::sample_evidence();
    evidence.outcome.end = RunOutcome::End::timed_out;
    return evidence;
  };
  EXPECT_EQ(shell_.run({"run", folder_, "--fail-fast"}), 124);
  EXPECT_EQ(shell_.runner.runs.size(), 1u);
  EXPECT_EQ(shell_.run({"run", folder_}), 124);
  EXPECT_EQ(shell_.runner.runs.size(), 3u);
}

TEST_F(RunCommand, CheckDeterminismComparesTwoRuns) {
  EXPECT_EQ(shell_.run({"run", kQuickstart, "--world", "sim", "--check-determinism"}), 0);
  shell_.runner.second = [](const harness::Case&) {
    auto outcome = harness::sample_evidence().outcome;
    outcome.digest += 1;
    return outcome;
  };
  EXPECT_EQ(shell_.run({"run", kQuickstart, "--world", "sim", "--check-determinism"}), 4);
  EXPECT_TRUE(has(shell_.out, "not_deterministic")) << shell_.out;
  EXPECT_TRUE(has(shell_.out, "--check-determinism")) << shell_.out;
}

TEST_F(RunCommand, AWorldThatIsNotHereIsSkipped) {
  shell_.runner.absent[WorldKind::sim] = "built without SimGrid";
  EXPECT_EQ(shell_.run({"run", kQuickstart}), 0);
  EXPECT_EQ(shell_.run({"run", kQuickstart, "--world", "sim"}), 77);
  EXPECT_TRUE(has(shell_.out, "built without SimGrid"));
}

TEST_F(RunCommand, AnExceptionOfTheRunnerIsAnErrorOfTheHarness) {
  shell_.runner.evidence = [](const harness::Case&) -> harness::Evidence {
    throw std::runtime_error("fork: out of memory");
  };
  EXPECT_EQ(shell_.run({"run", kQuickstart}), 3);
  EXPECT_TRUE(has(shell_.out, "fork: out of memory"));
}

// Nothing but JSON on standard output; one case is one object.
TEST_F(RunCommand, JsonToStandardOutputIsOnlyJson) {
  EXPECT_EQ(shell_.run({"run", kQuickstart, "--world", "sim", "--json", "-"}), 0);
  const auto report = ordered_json::parse(shell_.out);
  EXPECT_EQ(report["kind"], "run");
  EXPECT_EQ(report["reproduce"],
            std::string("rehearse run ") + kQuickstart + " --world sim --seed 1");
  EXPECT_TRUE(has(shell_.err, "passed"));
  EXPECT_EQ(harness::refusal(report, reports::report_schema()), "");
}

TEST_F(RunCommand, JsonOfSeveralCasesHasASummary) {
  const std::string file = folder_ + "/report.json";
  EXPECT_EQ(shell_.run({"run", kQuickstart, "--json", file}), 0);
  std::ifstream stream(file);
  const auto report = ordered_json::parse(stream);
  EXPECT_EQ(report["runs"].size(), 2u);
  EXPECT_EQ(report["summary"]["passed"], 2);
  EXPECT_EQ(harness::refusal(report, reports::report_schema()), "");
}

// A path that cannot be written is told before anything is run.
TEST_F(RunCommand, AnUnwritableReportIsToldBeforeTheRun) {
  EXPECT_EQ(shell_.run({"run", kQuickstart, "--json", folder_ + "/none/report.json"}), 3);
  EXPECT_TRUE(
      has(shell_.err, "cannot write report " + folder_ + "/none/report.json: No such file"));
  EXPECT_TRUE(shell_.runner.runs.empty());
}

// Overrides, seed and defaults are in the file beside the report; two files of one name are told
// apart.
TEST_F(RunCommand, WritesTheExpandedScenariosBesideTheReport) {
  const std::string report = folder_ + "/out.json";
  const std::string one = simple("a.toml"), other = simple("inner/a.toml");
  EXPECT_EQ(
      shell_.run({"run", one, other, "--seed", "7", "--set", "job.steps=5", "--json", report}), 0);
  for (const char* name : {"a.sim.toml", "a.sim-2.toml"}) {
    std::ifstream stream(folder_ + "/out.cases/" + name);
    const std::string text(std::istreambuf_iterator<char>(stream), {});
    EXPECT_TRUE(has(text, "seed = 7\n") && has(text, "steps = 5\n")) << name << ": " << text;
  }
  std::ifstream stream(report);
  EXPECT_EQ(ordered_json::parse(stream)["runs"][1]["expanded_file"],
            folder_ + "/out.cases/a.sim-2.toml");
}

// A signal during the first run: the report is written, the second run is not made.
TEST_F(RunCommand, ASignalEndsTheRunsButNotTheReport) {
  shell_.runner.evidence = [](const harness::Case&) {
    ::raise(SIGTERM);
    return harness::sample_evidence();
  };
  const std::string report = folder_ + "/report.json";
  EXPECT_EQ(shell_.run({"run", kQuickstart, "--json", report}), 128 + SIGTERM);
  EXPECT_EQ(shell_.runner.runs.size(), 1u);
  std::ifstream stream(report);
  EXPECT_EQ(ordered_json::parse(stream)["first_cause"], "stopped by signal 15 (Terminated)");
  EXPECT_TRUE(has(shell_.out, "stopped by signal 15"));
}

TEST_F(RunCommand, AFullDiskIsNamed) {
  EXPECT_EQ(shell_.run({"run", kQuickstart, "--json", "/dev/full"}), 3);
  EXPECT_TRUE(has(shell_.err, "cannot write report /dev/full: No space left on device"));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

}  // namespace
}  // namespace rehearse::cli
