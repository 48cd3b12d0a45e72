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
  const Ended ended = in_memory(kTrainerDies, {"--set", "expect.outcome.within=1us"});
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

// It begins with step 0, and no message of that kind is ever sent.
TEST(Verdict, ADelayOfWhatIsNeverSentIsNoProof) {
  for (const char* world : {"memory", "processes"}) {
    const Ended ended = rehearse({"run", "scenarios/smoke/delayed-messages.toml", "--world", world,
                                  "--set", "fault.slow-link.message=verdict_ask"});
    EXPECT_EQ(ended.code, 6) << world << "\n" << ended.out;
    EXPECT_TRUE(ended.says("\"slow-link\" never fired")) << ended.out;
  }
}

// The worker's gradients are three floats off the uncut run's: within a bound of four, beyond one
// of two, and named by tensor and element.
TEST(Verdict, ABoundOnGradientsIsHeldOrExceededInEveryWorld) {
  const Folder folder;
  const std::string file = folder.scenario("slightly_off", 2);
  for (const char* world : {"sim", "memory", "processes"}) {
    const auto with = [&](const char* closeness) {
      return odd({"run", file, "--world", world, "--set",
                  std::string("expect.gradients=") + closeness, "--json", "-"});
    };
    EXPECT_EQ(with("bitwise").code, 1) << world;
    const Ended within = with("{ max_ulp = 4 }");
    EXPECT_EQ(within.code, 0) << world << within.err;
    EXPECT_EQ(within.json()["gradients"]["max_ulp"], 3) << within.out;
    EXPECT_EQ(within.json()["gradients"]["tolerance"], "max_ulp 4");
    const Ended beyond = with("{ max_ulp = 2 }");
    EXPECT_EQ(beyond.code, 1) << world;
    EXPECT_EQ(beyond.json()["gradients"]["first_difference"]["index"], 0) << beyond.out;
    EXPECT_TRUE(beyond.says("3 ULP apart")) << beyond.err;
    EXPECT_EQ(with("{ relative = 1e-6 }").code, 0) << world;
    EXPECT_EQ(with("{ relative = 1e-7 }").code, 1) << world;
  }
}

// A handler puts a tensor with history aside, and another takes it: no sequence of calls does that.
TEST(Verdict, TensorsPassedOutsideCallsAreNotSequentialInEveryWorld) {
  const Folder folder;
  const std::string file = folder.scenario("passed_aside", 2);
  for (const char* world : {"sim", "memory", "processes"}) {
    const Ended ended = odd({"run", file, "--world", world});
    EXPECT_EQ(ended.code, 1) << world;
    EXPECT_TRUE(ended.says("not_sequential: data flowed against the order")) << ended.out;
  }
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
