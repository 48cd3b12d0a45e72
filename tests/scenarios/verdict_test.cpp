#include <gtest/gtest.h>

#include <fstream>

#include "tests/scenarios/command.hpp"

// That a verdict can be the other one: each expectation of the smoke scenarios, made wrong, fails.
namespace rehearse::scenarios {
namespace {

const std::string kServerDies = "scenarios/smoke/server-dies-in-backward.toml";
const std::string kTrainerDies = "scenarios/smoke/trainer-dies-in-backward.toml";
const std::string kReordered = "scenarios/smoke/reordered.toml";

Ended in_memory(const std::string& file, std::vector<std::string> more) {
  std::vector<std::string> words{"run", file, "--world", "memory"};
  words.insert(words.end(), more.begin(), more.end());
  return rehearse(words);
}

TEST(Verdict, AKilledWorkerDoesNotComplete) {
  const Ended ended = in_memory(kServerDies, {"--set", "expect.outcome=completes"});
  EXPECT_EQ(ended.code, 1) << ended.out;
  EXPECT_TRUE(ended.says("expected: every worker finishes")) << ended.out;
}

TEST(Verdict, AnotherCodeIsNotTheExpectedOne) {
  const Ended ended = in_memory(kServerDies, {"--set", "expect.outcome.fails_with=timed_out"});
  EXPECT_EQ(ended.code, 1) << ended.out;
  EXPECT_TRUE(ended.says("peer_lost on w1")) << ended.out;
}

TEST(Verdict, AnotherNameIsNotTheExpectedOne) {
  const Ended ended = in_memory(kServerDies, {"--set", "expect.outcome.names.rank=0"});
  EXPECT_EQ(ended.code, 1) << ended.out;
  EXPECT_TRUE(ended.says("does not name w0")) << ended.out;
}

// The worker that fails is not named by failing.
TEST(Verdict, WhoFailsIsNotThereforeNamed) {
  const Ended ended = in_memory(kServerDies, {"--set", "expect.outcome.names.rank=2"});
  EXPECT_EQ(ended.code, 1) << ended.out;
  EXPECT_TRUE(ended.says("does not name w2")) << ended.out;
}

TEST(Verdict, AnotherWorkerIsNotTheExpectedOne) {
  EXPECT_EQ(in_memory(kServerDies, {"--set", "expect.outcome.on.rank=0"}).code, 1);
}

TEST(Verdict, TooLateIsAFailure) {
  const Ended ended = in_memory(kTrainerDies, {"--set", "expect.outcome.within=59s"});
  EXPECT_EQ(ended.code, 1) << ended.out;
  EXPECT_TRUE(ended.says("after the first fault")) << ended.out;
}

TEST(Verdict, AFailureThatIsExpectedMustCome) {
  const Ended ended = in_memory("scenarios/smoke/model-parallel.toml",
                                {"--set", "expect.outcome={ fails_with = \"peer_lost\" }"});
  EXPECT_EQ(ended.code, 1) << ended.out;
}

// A kill that waits for a step that never comes: nothing was shown.
TEST(Verdict, AFaultThatNeverFiresIsNoProof) {
  const Ended ended = in_memory(kServerDies, {"--set", "fault.server-dies.when.step=99"});
  EXPECT_EQ(ended.code, 6) << ended.out;
  EXPECT_TRUE(ended.says("\"server-dies\" never fired")) << ended.out;
}

TEST(Verdict, ADelayThatHitsNoMessageIsNoProof) {
  EXPECT_EQ(in_memory("scenarios/smoke/delayed-sometimes.toml",
                      {"--set", "fault.late.when.probability=0"})
                .code,
            6);
}

// The first of 3, 124, 1, 4, 6, 7 among several files.
TEST(Verdict, OfSeveralFilesTheGravestCounts) {
  const Ended ended = rehearse(
      {"run", kReordered, kServerDies, "--world", "memory", "--set", "expect.outcome=completes"});
  EXPECT_EQ(ended.code, 1) << ended.out;
  EXPECT_TRUE(ended.says("2 runs: 1 passed, 1 failed")) << ended.out;
}

// Copied and run, the last line of a failure fails in the same way.
TEST(Verdict, TheLineToCopyRepeatsTheFailure) {
  const Ended first = in_memory(kServerDies, {"--set", "expect.outcome=completes", "--seed", "5"});
  const std::string last = first.out.substr(first.out.rfind("  ") + 2);
  const Ended again = run({"/bin/sh", "-c", last});
  EXPECT_EQ(again.code, 1) << last << again.err;
  EXPECT_EQ(again.out.substr(0, again.out.find("\n")), first.out.substr(0, first.out.find("\n")));
}

// The wrapper tells by REHEARSE_COMMAND what the user typed.
TEST(Verdict, TheLineToCopyBeginsWithWhatTheUserTyped) {
  const Ended ended = run({"/usr/bin/env", "REHEARSE_COMMAND=./rehearse", REHEARSE_PROGRAM, "run",
                           kServerDies, "--world", "memory", "--set", "expect.outcome=completes"});
  EXPECT_TRUE(ended.out.ends_with(
      "  ./rehearse run scenarios/smoke/server-dies-in-backward.toml --world memory "
      "--seed 1 --set expect.outcome=completes\n"))
      << ended.out;
}

// The file beside the report is what was run: it passes and fails as the original did.
TEST(Verdict, TheExpandedFileRunsTheSame) {
  const Folder folder;
  const std::string report = folder.path("report.json");
  ASSERT_EQ(in_memory(kReordered, {"--seed", "8", "--json", report}).code, 0);
  const auto original = nlohmann::json::parse(std::ifstream(report));
  const Ended again = rehearse({"run", original["expanded_file"], "--json", "-"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.json()["digest"], original["digest"]);
  EXPECT_EQ(again.json()["seed"], 8);
}

}  // namespace
}  // namespace rehearse::scenarios
