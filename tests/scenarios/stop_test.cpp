#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/scenarios/command.hpp"

// SIGINT and SIGTERM while a run is under way.
namespace rehearse::scenarios {
namespace {

namespace fs = std::filesystem;

/// Processes whose parent was `parent` or that have `text` in their command line.
int processes_with(const std::string& text) {
  int found = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream stream(entry.path() / "cmdline", std::ios::binary);
    const std::string words(std::istreambuf_iterator<char>(stream), {});
    if (words.find(text) != std::string::npos) ++found;
  }
  return found;
}

/// Starts an endless run, and sends `signal` when its first worker has announced itself.
Ended stopped(const Folder& folder, const std::string& world, int signal) {
  const std::string pipe = folder.path("pipe");
  EXPECT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string file =
      folder.scenario("endless_sleep", 2, "options = { pipe = \"" + pipe + "\" }\n");
  return odd({"run", file, "--world", world, "--json", folder.path("report.json")},
             [&](pid_t child) {
               std::string name;
               std::ifstream(pipe) >> name;  // opens when the worker does
               EXPECT_EQ(name, "w0");
               ::kill(child, signal);
             });
}

// A shell that starts a program in the background has it ignore SIGINT: Ctrl-C is for others then.
TEST(Stop, ASignalThatWasIgnoredAtTheStartStaysIgnored) {
  for (const char* world : {"memory", "processes"}) {
    const Folder folder;
    const std::string pipe = folder.path("pipe"), report = folder.path("report.json");
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    const std::string file =
        folder.scenario("endless_sleep", 2, "options = { pipe = \"" + pipe + "\" }\n");
    const Ended ended = run({"/bin/sh", "-c", "trap '' INT; exec \"$@\"", "sh", ODD_PROGRAM, "run",
                             file, "--world", world, "--json", report},
                            [&](pid_t child) {
                              std::string name;
                              std::ifstream(pipe) >> name;
                              ::kill(child, SIGINT);
                              ::kill(child, SIGTERM);
                            });
    EXPECT_EQ(ended.code, 128 + SIGTERM) << world << ended.err;
    const auto cause = nlohmann::json::parse(std::ifstream(report))["first_cause"];
    EXPECT_EQ(cause, "stopped by signal 15 (Terminated)") << world;
  }
}

// Whoever is killed cannot tidy up; the next run does, and leaves alone what is in use.
TEST(Stop, WhatAKilledRunHasLeftIsRemovedByTheNextOne) {
  const Folder folder;
  const std::string temporary = folder.path("tmp"), pipe = folder.path("pipe");
  fs::create_directory(temporary);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string endless =
      folder.scenario("endless_sleep", 2, "options = { pipe = \"" + pipe + "\" }\n");
  const auto with = [&](const std::string& file, const std::function<void(pid_t)>& meanwhile) {
    return run(
        {"/usr/bin/env", "TMPDIR=" + temporary, ODD_PROGRAM, "run", file, "--world", "processes"},
        meanwhile);
  };
  const auto left = [&] {
    return std::distance(fs::directory_iterator(temporary), fs::directory_iterator());
  };
  const std::string quick = folder.scenario("throws", 2);
  const auto wait_for_start = [&] {
    std::string name;
    std::ifstream(pipe) >> name;
  };
  with(endless, [&](pid_t first) {
    wait_for_start();
    EXPECT_EQ(left(), 1);
    with(quick, {});
    EXPECT_EQ(left(), 1) << "it is in use";
    ::kill(first, SIGKILL);
  });
  EXPECT_EQ(left(), 1) << "nobody could remove it";
  with(quick, {});
  EXPECT_EQ(left(), 0);
}

class StopBySignal : public testing::TestWithParam<std::tuple<std::string, int>> {};

// The report is written, the exit code is 128 + the signal, and no worker is left.
TEST_P(StopBySignal, WritesTheReportAndLeavesNobodyBehind) {
  const auto& [world, signal] = GetParam();
  const Folder folder;
  const Ended ended = stopped(folder, world, signal);
  EXPECT_EQ(ended.code, 128 + signal) << ended.err;
  std::ifstream stream(folder.path("report.json"));
  ASSERT_TRUE(stream);
  const auto report = nlohmann::json::parse(stream);
  EXPECT_EQ(report["verdict"], "harness_error");
  EXPECT_TRUE(report["first_cause"].get<std::string>().starts_with("stopped by signal " +
                                                                   std::to_string(signal)));
  EXPECT_EQ(processes_with(folder.path("")), 0);
}

INSTANTIATE_TEST_SUITE_P(Worlds, StopBySignal,
                         testing::Values(std::tuple("sim", SIGINT), std::tuple("memory", SIGTERM),
                                         std::tuple("processes", SIGINT),
                                         std::tuple("processes", SIGTERM)));

}  // namespace
}  // namespace rehearse::scenarios
