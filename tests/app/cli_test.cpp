#include "app/cli.hpp"

#include <gtest/gtest.h>

#include "tests/app/fake_runner.hpp"
#include "tests/harness/schema_validator.hpp"

namespace rehearse::cli {
namespace {

using nlohmann::ordered_json;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Every command and every option that `run` takes is in the help.
TEST(CommandLine, HelpIsComplete) {
  Shell shell;
  EXPECT_EQ(shell.run({"--help"}), 0);
  for (const char* command : {"run", "explain", "schema", "list", "doctor", "version"}) {
    EXPECT_TRUE(has(shell.out, command)) << command;
  }
  EXPECT_FALSE(has(shell.out, "worker")) << "an internal command";
  EXPECT_EQ(shell.run({"run", "--help"}), 0);
  for (const char* option :
       {"--world", "--seed", "--repeat", "--set", "--json", "--check-determinism", "--list",
        "--force", "--timeout", "--transport", "--fail-fast", "--filter"}) {
    EXPECT_TRUE(has(shell.out, option)) << option;
  }
}

TEST(CommandLine, MistakesAreExitTwoWithTheNearestName) {
  Shell shell;
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{}, "no command"},
      {{"rum"}, "did you mean `run`?"},
      {{"run"}, "FILE|DIR is required"},
      {{"run", "--wrold", "sim", "x"}, "did you mean `--world`?"},
      {{"run", "--world", "simm", "x"}, "did you mean `sim`?"},
      {{"run", "--seed", "-1", "x"}, "expected a number from 0"},
      {{"run", "--seed", "one", "x"}, "or `random`"},
      {{"run", "--repeat", "0", "x"}, "--repeat"},
      {{"run", "--timeout", "60", "x"}, "\"60\" has no unit"},
      {{"run", "--transport", "udp", "x"}, "unknown transport \"udp\", expected tcp or shm"},
      {{"run", "--set"}, "--set"},
      {{"explain"}, "FILE is required"},
      {{"explain", "a", "b"}, "`explain` takes no further argument"},
      {{"list", "kind"}, "did you mean `kinds`?"},
      {{"schema", "reprot"}, "did you mean `report`?"},
      {{"--nonsense"}, "unknown option \"--nonsense\", expected a command first"}};
  for (const auto& [arguments, message] : mistakes) {
    EXPECT_EQ(shell.run(arguments), 2) << message;
    EXPECT_TRUE(has(shell.err, message)) << message << "\n" << shell.err;
    EXPECT_EQ(shell.out, "");
  }
}

// What the format promises for later is refused by name, never ignored.
TEST(CommandLine, LaterPartsAreNotSupportedYet) {
  Shell shell;
  for (const char* command : {"check", "explore", "shrink", "replay", "diff", "negative", "launch",
                              "init", "completion"}) {
    EXPECT_EQ(shell.run({command}), 2);
    EXPECT_TRUE(has(shell.err, std::string("`") + command + "` is not supported yet")) << shell.err;
  }
  for (const char* option : {"--device", "--jobs", "--shard", "--time-scale", "--junit", "--html",
                             "--trace", "--out-dir", "--annotations", "--fail-on-skip"}) {
    EXPECT_EQ(shell.run({"run", "x.toml", option, "1"}), 2);
    EXPECT_TRUE(has(shell.err, std::string("`") + option + "` of `run` is not supported yet"))
        << shell.err;
  }
  EXPECT_EQ(shell.run({"run", "x.toml", "--jobs=4"}), 2);
  EXPECT_TRUE(has(shell.err, "`--jobs` of `run` is not supported yet"));
}

TEST(Commands, ExplainPrintsThePlanOrTheProblems) {
  Shell shell;
  EXPECT_EQ(shell.run({"explain", "scenarios/smoke/quickstart.toml", "--set", "seed=5"}), 0);
  EXPECT_TRUE(has(shell.out, "quickstart, seed 5")) << shell.out;
  EXPECT_EQ(shell.run({"explain", "tests/harness/corpus/bad/unknown-kind.toml"}), 2);
  EXPECT_TRUE(has(shell.err, "unknown-kind.toml:12:8: unknown kind \"kil\"")) << shell.err;
}

TEST(Commands, SchemasAreJson) {
  Shell shell;
  EXPECT_EQ(shell.run({"schema"}), 0);
  EXPECT_TRUE(ordered_json::parse(shell.out).contains("properties"));
  EXPECT_EQ(shell.run({"schema", "report"}), 0);
  EXPECT_TRUE(ordered_json::parse(shell.out).contains("$defs"));
}

// The lists are those of the runtime itself.
TEST(Commands, ListPrintsStableNames) {
  Shell shell;
  const std::vector<std::pair<std::string, std::string>> samples = {
      {"kinds", "kill\n"},
      {"events", "pass_committed\n"},
      {"phases", "backward\n"},
      {"messages", "turn_ask\n"},
      {"workloads", "parameter_server  "},
      {"options", "parameter_server.hidden = 32"},
      {"checks", "gradients\n"},
      {"codes", "peer_lost\n"}};
  for (const auto& [topic, sample] : samples) {
    EXPECT_EQ(shell.run({"list", topic}), 0);
    EXPECT_TRUE(has(shell.out, sample)) << topic << "\n" << shell.out;
    EXPECT_EQ(shell.run({"list", topic, "--json"}), 0);
    const auto rows = ordered_json::parse(shell.out);
    ASSERT_FALSE(rows.empty());
    EXPECT_TRUE(rows[0].contains("name")) << topic;
  }
}

TEST(Commands, DoctorSaysWhatIsAbsentAndWhatItCosts) {
  Shell shell;
  shell.runner.absent[harness::WorldKind::sim] = "built without SimGrid";
  EXPECT_EQ(shell.run({"doctor"}), 0);
  for (const char* part : {"compiler", "libtorch         2.11.0", "built without SimGrid", "NCCL",
                           "world memory     can be run"}) {
    EXPECT_TRUE(has(shell.out, part)) << part << "\n" << shell.out;
  }
  EXPECT_EQ(shell.run({"doctor", "--json"}), 0);
  EXPECT_TRUE(ordered_json::parse(shell.out).is_array());
}

TEST(Commands, VersionNamesProgramAndLibtorch) {
  Shell shell;
  EXPECT_EQ(shell.run({"version"}), 0);
  EXPECT_EQ(shell.out, "rehearse 1.2.3, libtorch 2.11.0\n");
  EXPECT_EQ(shell.run({"--version"}), 0);
  EXPECT_EQ(shell.out, "rehearse 1.2.3, libtorch 2.11.0\n");
}

TEST(Commands, WorkerIsHandedToTheProgram) {
  FakeRunner runner;
  const auto catalogue = harness::sample_catalogue();
  int got = 0;
  const cli::Setup setup{runner, catalogue, {}, "rehearse", {}, [&](int fd) {
                           got = fd;
                           return 5;
                         }};
  std::ostringstream out, err;
  const char* argv[] = {"rehearse", "worker", "--spec-fd", "7"};
  EXPECT_EQ(cli::main(4, argv, setup, {out, err, false, false}), 5);
  EXPECT_EQ(got, 7);
}

}  // namespace
}  // namespace rehearse::cli
