#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/scenarios/command.hpp"

// What a user may get wrong, given to the real binary: exit 2, where it is, and what was meant.
namespace rehearse::scenarios {
namespace {

const std::string kGood =
    "format = 1\n[cluster]\nhosts = 4\n[job]\nworkload = \"parameter_server\"\n";
std::string fault(const std::string& lines) {
  return kGood +
         "[[fault]]\nid = \"f\"\nkind = \"kill\"\nwho = { rank = 1 }\nwhen = { step = 1 }\n" +
         lines;
}

struct Wrong {
  const char* name;
  std::string text;
  const char* said;  ///< after the file's name
};

class BadInput : public testing::TestWithParam<Wrong> {};

TEST_P(BadInput, IsRefusedWithItsPlace) {
  const Folder folder;
  const std::string file = folder.write("bad.toml", GetParam().text);
  const Ended ended = rehearse({"run", file});
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.out, "");
  EXPECT_TRUE(ended.err.starts_with(file + ":")) << ended.err;
  EXPECT_TRUE(ended.says(file + GetParam().said)) << ended.err;
}

INSTANTIATE_TEST_SUITE_P(
    Input, BadInput,
    testing::Values(
        Wrong{"LaterKey", kGood + "[elastic]\nlease = \"1s\"\n",
              ":6:2: `elastic` is not supported yet"},
        Wrong{"LaterKind",
              fault("") + "[[fault]]\nid = \"g\"\nkind = \"pause\"\nwho = { rank = 1 }\nwhen = { "
                          "step = 1 }\n",
              ":13:8: kind \"pause\" is not supported yet"},
        Wrong{"TwoJobs", "format = 1\n[[job]]\nworkload = \"parameter_server\"\n",
              ":2:1: `[[job]]`, several jobs on one cluster, is not supported yet"},
        Wrong{"OptionsThatExcludeEachOther",
              "format = 1\n[job]\nworkload = \"fan_out\"\noptions = { copies = 2 }\n",
              ":4:1: `job.options`: relays = 3 is more than copies = 2"},
        Wrong{"MoreWorkersUsedThanThere",
              "format = 1\n[job]\nworkload = \"random_graph\"\noptions = { workers_used = 2 }\n",
              ":3:1: workload \"random_graph\" with these options needs 2 workers"},
        Wrong{"UnknownKey", "format = 1\nsed = 3\n" + kGood.substr(11),
              ":2:1: unknown key in a scenario: \"sed\", did you mean \"seed\"?"},
        Wrong{"WrongType", "format = 1\nseed = \"x\"\n" + kGood.substr(11),
              ":2:8: `seed` is the string \"x\", expected an integer"},
        Wrong{
            "MissingUnit",
            kGood +
                "[[fault]]\nid = \"f\"\nkind = \"kill\"\nwho = { rank = 1 }\nwhen = { time = 5 }\n",
            ":10:17: `fault.when.time` is the integer 5, expected"},
        Wrong{"UnknownWorkload", "format = 1\n[job]\nworkload = \"parameter_sever\"\n",
              ":3:12: unknown workload \"parameter_sever\", did you mean \"parameter_server\"?"},
        Wrong{
            "RankOutOfRange",
            kGood +
                "[[fault]]\nid = \"f\"\nkind = \"kill\"\nwho = { rank = 4 }\nwhen = { step = 1 }\n",
            ":9:16: `fault.who.rank`: rank 4 is out of range, expected 0 to 3"},
        Wrong{"TwoTriggers",
              kGood + "[[fault]]\nid = \"f\"\nkind = \"kill\"\nwho = { rank = 1 }\nwhen = { step = "
                      "1, time = \"1s\" }\n",
              ":10:20: `fault.when` has 2 triggers (step, time)"},
        Wrong{"OneIdTwice",
              fault("[[fault]]\nid = \"f\"\nkind = \"kill\"\nwho = { rank = 1 }\nwhen = { step = 1 "
                    "}\n"),
              ":12:6: "},
        Wrong{"Empty", "", ":1:1: "}, Wrong{"NotUtf8", "format = 1\nname = \"\xff\"\n", ":2:9: "},
        Wrong{"BracketTilde", "\n[~", ":2:2: "}),
    [](const auto& tested) { return tested.param.name; });

TEST(BadInput, ADirectoryInPlaceOfAFileHasNoScenarios) {
  const Folder folder;
  const Ended ended = rehearse({"run", folder.path("")});
  EXPECT_EQ(ended.code, 2);
  EXPECT_TRUE(ended.says("no scenario file, expected *.toml in " + folder.path(""))) << ended.err;
}

TEST(BadInput, AFileThatIsNotThereIsNamed) {
  const Ended ended = rehearse({"run", "nowhere/nothing.toml"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_TRUE(ended.err.starts_with("nowhere/nothing.toml:1:1: ")) << ended.err;
}

TEST(BadInput, ADirectoryNamedLikeAFileIsRefused) {
  const Folder folder;
  std::filesystem::create_directory(folder.path("x.toml"));
  const Ended ended = rehearse({"explain", folder.path("x.toml")});
  EXPECT_EQ(ended.code, 2);
  EXPECT_TRUE(ended.says("directory")) << ended.err;
}

TEST(BadInput, CommandsAndOptionsAreSpelledForTheUser) {
  EXPECT_TRUE(rehearse({"rnu"}).says("unknown command \"rnu\", did you mean `run`?"));
  EXPECT_TRUE(rehearse({"explore", "x"}).says("the command `explore` is not supported yet"));
  EXPECT_TRUE(rehearse({"run", "x", "--wrold", "sim"}).says("did you mean `--world`?"));
  EXPECT_TRUE(rehearse({"run", "x", "--html", "f"})
                  .says("the option `--html` of `run` is not supported yet"));
  for (const auto& words : std::vector<std::vector<std::string>>{
           {}, {"rnu"}, {"explore"}, {"run"}, {"run", "x", "--wrold"}}) {
    EXPECT_EQ(rehearse(words).code, 2);
  }
}

TEST(BadInput, AnOverrideIsAPlaceToo) {
  const Ended ended =
      rehearse({"run", "scenarios/smoke/quickstart.toml", "--set", "job.options.hiden=3"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_TRUE(ended.says("did you mean \"hidden\"?")) << ended.err;
}

// The report: what cannot be written is told before the run where that is possible, and nothing
// half-written is left.
TEST(Report, AFullDiskIsNamed) {
  const Ended ended = rehearse(
      {"run", "scenarios/smoke/one-worker.toml", "--world", "memory", "--json", "/dev/full"});
  EXPECT_EQ(ended.code, 3);
  EXPECT_TRUE(ended.says("cannot write report /dev/full: No space left on device")) << ended.err;
}

TEST(Report, AFolderThatIsNotThereIsNamed) {
  const Ended ended =
      rehearse({"run", "scenarios/smoke/one-worker.toml", "--json", "/nowhere/report.json"});
  EXPECT_EQ(ended.code, 3);
  EXPECT_TRUE(ended.says("cannot write report /nowhere/report.json")) << ended.err;
}

TEST(Report, AFolderThatTakesNoFilesIsNamed) {
  const Ended ended =
      rehearse({"run", "scenarios/smoke/one-worker.toml", "--json", "/sys/report.json"});
  EXPECT_EQ(ended.code, 3);
  EXPECT_TRUE(ended.says("cannot write report /sys/report.json: ")) << ended.err;
}

// Logs and disks of processes live below TMPDIR.
TEST(BadInput, ATemporaryDirectoryThatIsNoneIsNamed) {
  const Ended ended = run({"/usr/bin/env", "TMPDIR=/nowhere", REHEARSE_PROGRAM, "run",
                           "scenarios/smoke/one-worker.toml", "--world", "processes"});
  EXPECT_EQ(ended.code, 3) << ended.out;
  EXPECT_TRUE(ended.says("no directory for the run: TMPDIR, or /tmp, is no directory"))
      << ended.out << ended.err;
}

TEST(Report, StandardOutputMayBeFullToo) {
  const Ended ended =
      run({"/bin/sh", "-c",
           std::string(REHEARSE_PROGRAM) +
               " run scenarios/smoke/one-worker.toml --world memory --json - >/dev/full"});
  EXPECT_EQ(ended.code, 3) << ended.err;
}

}  // namespace
}  // namespace rehearse::scenarios
