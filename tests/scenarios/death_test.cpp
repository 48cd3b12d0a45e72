#include <gtest/gtest.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "tests/scenarios/command.hpp"

// Workers that die by themselves, and programs that cannot start any.
namespace rehearse::scenarios {
namespace {

using nlohmann::json;

Ended in_processes(const Folder& folder, const std::string& workload) {
  return odd({"run", folder.scenario(workload, 2), "--world", "processes", "--json", "-"});
}

TEST(Death, AnAbortIsNamedWithItsSignalAndLastLines) {
  const Folder folder;
  const Ended ended = in_processes(folder, "aborts");
  EXPECT_EQ(ended.code, 1) << ended.err;
  const json worker = ended.json()["workers"][1];
  EXPECT_EQ(worker["signal"], 6);
  EXPECT_EQ(worker["last_lines"].back(), "the last words of w1") << worker.dump(2);
  EXPECT_TRUE(ended.says("w1 printed: the last words of w1")) << ended.err;
}

TEST(Death, AnExitIsNamedWithItsStatus) {
  const Folder folder;
  const Ended ended = in_processes(folder, "exits");
  EXPECT_EQ(ended.code, 1) << ended.err;
  EXPECT_EQ(ended.json()["workers"][1]["exit_code"], 41);
  EXPECT_TRUE(ended.says("w1 exited with 41")) << ended.err;
}

TEST(Death, AnExceptionIsToldInEveryWorld) {
  const Folder folder;
  for (const std::string world : {"sim", "memory", "processes"}) {
    const Ended ended = odd({"run", folder.scenario("throws", 2), "--world", world});
    EXPECT_EQ(ended.code, 1) << world;
    EXPECT_TRUE(ended.says("w1 failed with remote_exception")) << ended.out;
    EXPECT_TRUE(ended.says("no more coffee")) << ended.out;
  }
}

// Each phase that the runtime or the workload enters is a place to die at, by its name. A trainer
// enters forward and backward, a server the optimizer; the other trainer is told of either.
TEST(Death, AWorkerDiesOnEnteringEachPhase) {
  const std::vector<std::pair<std::string, std::string>> phases = {
      {"forward", "2"}, {"backward", "2"}, {"optimizer", "0"}};
  for (const auto& [phase, rank] : phases) {
    for (const char* world : {"memory", "processes"}) {
      const Ended ended = rehearse(
          {"run", "scenarios/smoke/trainer-dies-in-backward.toml", "--world", world, "--set",
           "fault.trainer-dies.when.phase=" + phase, "--set", "fault.trainer-dies.who.rank=" + rank,
           "--set", "expect.outcome.names.rank=" + rank, "--json", "-"});
      EXPECT_EQ(ended.code, 0) << phase << " in " << world << "\n" << ended.err;
      EXPECT_EQ(ended.json()["faults"][0]["fired"], 1);
    }
  }
}

// What a task failed with reads the same wherever it ran.
TEST(Death, AFailureHasTheSameWordsInEveryWorld) {
  const Folder folder;
  for (const char* world : {"sim", "memory", "processes"}) {
    const Ended ended = odd({"run", folder.scenario("throws", 2), "--world", world});
    EXPECT_TRUE(
        ended.says("w1 failed with remote_exception on w1: task main: std::runtime_error: "
                   "no more coffee"))
        << world << "\n"
        << ended.out;
  }
}

// In virtual worlds an abort takes the whole run with it: an error of the harness, never a pass.
TEST(Death, AnAbortInAVirtualWorldIsNoVerdict) {
  const Folder folder;
  const Ended ended = odd({"run", folder.scenario("aborts", 2), "--world", "memory"});
  EXPECT_EQ(ended.code, 3) << ended.out;
  EXPECT_TRUE(ended.says("signal 6")) << ended.out;
}

// A program whose workers end at once: named, with exit status and what they printed.
TEST(Death, AWorkerThatCannotStartIsNamedWithStatusAndLastLines) {
  const Folder folder;
  const std::string broken = folder.path("broken_program");
  std::filesystem::copy_file(ODD_PROGRAM, broken);
  const Ended ended = run({broken, "run", folder.scenario("throws", 2), "--world", "processes"});
  EXPECT_EQ(ended.code, 1) << ended.out;
  EXPECT_TRUE(ended.says(" failed with cannot_start")) << ended.out;
  EXPECT_TRUE(ended.says(broken)) << ended.out;
  EXPECT_TRUE(ended.says("exit status 17")) << ended.out;
  EXPECT_TRUE(ended.says("libodd.so.1: cannot open shared object file")) << ended.out;
}

}  // namespace
}  // namespace rehearse::scenarios
