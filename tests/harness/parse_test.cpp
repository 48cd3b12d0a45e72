#include "harness/parse.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "harness/document.hpp"
#include "tests/harness/corpus.hpp"
#include "tests/harness/sample_catalogue.hpp"

namespace rehearse::harness {
namespace {

Parsed parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_scenario(text, "t.toml", overrides, sample_catalogue());
}

std::string all_problems(const Parsed& parsed) {
  std::string text;
  for (const Problem& problem : parsed.problems) text += problem.text() + "\n";
  return text;
}

// Every good file of the corpus is accepted without a word.
TEST(Parse, AcceptsTheGoodCorpus) {
  const auto files = corpus("good");
  ASSERT_GE(files.size(), 7u);
  for (const CorpusFile& file : files) {
    const Parsed parsed = parse(file.text);
    EXPECT_TRUE(parsed.scenario) << file.name << "\n" << all_problems(parsed);
    EXPECT_TRUE(parsed.problems.empty()) << file.name << "\n" << all_problems(parsed);
  }
}

// Every bad file is refused, and its first problem has the place and the words that it names.
TEST(Parse, RefusesTheBadCorpusWithPlaceAndExpectation) {
  const auto files = corpus("bad");
  ASSERT_GE(files.size(), 70u);
  for (const CorpusFile& file : files) {
    const Parsed parsed = parse(file.text);
    EXPECT_FALSE(parsed.scenario) << file.name;
    ASSERT_FALSE(parsed.problems.empty()) << file.name;
    const std::string first = parsed.problems[0].text();
    const std::size_t cut = file.error.find(": ");
    ASSERT_NE(cut, std::string::npos) << file.name << " names no error";
    const std::string place = "t.toml:" + file.error.substr(0, cut) + ": ";
    EXPECT_TRUE(first.starts_with(place)) << file.name << "\n" << place << "\n" << first;
    EXPECT_NE(first.find(file.error.substr(cut + 2)), std::string::npos) << file.name << "\n"
                                                                         << first;
  }
}

// The values of the fullest file arrive in the structs, in base units.
TEST(Parse, ReadsEveryKeyIntoItsPlace) {
  const Parsed parsed =
      load_scenario("tests/harness/corpus/good/everything.toml", {}, sample_catalogue());
  ASSERT_TRUE(parsed.scenario) << all_problems(parsed);
  const Scenario& scenario = *parsed.scenario;
  EXPECT_EQ(scenario.name, "a parameter server's worker dies in backward");
  EXPECT_EQ(scenario.seed, 7u);
  EXPECT_EQ(scenario.worlds.size(), 3u);
  EXPECT_EQ(scenario.cluster.workers(), 6);
  EXPECT_EQ(scenario.cluster.link_bits_per_s, 10'000'000'000);
  EXPECT_EQ(scenario.cluster.link_latency, std::chrono::microseconds(50));
  EXPECT_EQ(scenario.cluster.host_flops_per_s, 50'000'000'000);
  EXPECT_EQ(scenario.cluster.memory_bits_per_s, 160'000'000'000);
  EXPECT_EQ(scenario.job.workload, "parameter_server");
  EXPECT_EQ(scenario.job.steps, 20);
  EXPECT_EQ(std::get<std::int64_t>(scenario.job.options.at("trainers")), 3);
  ASSERT_EQ(scenario.faults.size(), 4u);
}

TEST(Parse, ReadsFaultsIntoSpecs) {
  const Parsed parsed =
      load_scenario("tests/harness/corpus/good/everything.toml", {}, sample_catalogue());
  ASSERT_TRUE(parsed.scenario);
  const auto& faults = parsed.scenario->faults;
  EXPECT_EQ(faults[0].kind, FaultKind::kill);
  EXPECT_EQ(faults[0].who.ranks, std::vector<int>{2});
  EXPECT_EQ(faults[0].when.anchor, FaultTrigger::Anchor::step);
  EXPECT_EQ(faults[0].when.step, 5);
  EXPECT_EQ(faults[0].when.phase, "backward");
  EXPECT_EQ(faults[0].when.rank, 0);
  EXPECT_EQ(faults[0].seen_as, SeenAs::silent);
  EXPECT_EQ(faults[1].who.kind, FaultTarget::Kind::link);
  EXPECT_TRUE(faults[1].who.both);
  EXPECT_EQ(faults[1].when.event, EventKind::pass_started);
  EXPECT_EQ(faults[1].when.nth, 3u);
  EXPECT_EQ(faults[1].lasts, std::chrono::seconds(2));
  EXPECT_EQ(faults[1].jitter, std::chrono::microseconds(1500));
  EXPECT_EQ(faults[1].messages, (std::vector{MessageKind::grad, MessageKind::start}));
  EXPECT_EQ(faults[2].kind, FaultKind::reorder);
  EXPECT_EQ(faults[2].by, kDefaultReorderBy);
  EXPECT_DOUBLE_EQ(faults[2].when.probability, 0.25);
  EXPECT_EQ(faults[3].who.ranks, (std::vector{1, 5}));
  EXPECT_EQ(faults[3].when.phase, "warm-up");
}

TEST(Parse, ReadsExpectations) {
  const Parsed parsed =
      load_scenario("tests/harness/corpus/good/everything.toml", {}, sample_catalogue());
  ASSERT_TRUE(parsed.scenario);
  const Expect& expect = parsed.scenario->expect;
  EXPECT_EQ(expect.gradients.kind, Closeness::Kind::bitwise);
  EXPECT_EQ(expect.final_parameters->kind, Closeness::Kind::unchecked);
  EXPECT_FALSE(expect.outcome.completes);
  EXPECT_EQ(expect.outcome.fails_with, Code::peer_lost);
  EXPECT_EQ(expect.outcome.on->ranks, std::vector<int>{0});
  EXPECT_EQ(expect.outcome.names->ranks, std::vector<int>{2});
  EXPECT_EQ(expect.outcome.within, std::chrono::seconds(5));
}

// What a file leaves out: checked strictly, and named after the file.
TEST(Parse, FillsInDefaults) {
  const Parsed parsed =
      load_scenario("tests/harness/corpus/good/minimal.toml", {}, sample_catalogue());
  ASSERT_TRUE(parsed.scenario);
  EXPECT_EQ(parsed.scenario->name, "minimal");
  EXPECT_EQ(parsed.scenario->expect.gradients.kind, Closeness::Kind::bitwise);
  EXPECT_TRUE(parsed.scenario->expect.leaks_checked);
  EXPECT_TRUE(parsed.scenario->expect.outcome.completes);
  EXPECT_EQ(std::get<std::string>(parsed.scenario->job.options.at("dtype")), "float32");
}

// One run tells all that is wrong, in the order of the file.
TEST(Parse, ReportsSeveralProblemsInOrder) {
  const Parsed parsed =
      load_scenario("tests/harness/corpus/bad/several.toml", {}, sample_catalogue());
  ASSERT_EQ(parsed.problems.size(), 3u) << all_problems(parsed);
  EXPECT_EQ(parsed.problems[0].place.line, 3u);
  EXPECT_EQ(parsed.problems[1].place.line, 4u);
  EXPECT_EQ(parsed.problems[2].place.line, 7u);
}

// Who is out of range when nobody knows how many there are?
TEST(Parse, AWrongNumberOfHostsIsOneProblem) {
  for (const char* file : {"hosts-range", "wrong-type"}) {
    const Parsed parsed = load_scenario(fmt::format("tests/harness/corpus/bad/{}.toml", file), {},
                                        sample_catalogue());
    EXPECT_EQ(parsed.problems.size(), 1u) << file << "\n" << all_problems(parsed);
  }
}

// What a workload says of options that exclude each other is the refusal, at their place.
TEST(Parse, OptionsThatDoNotGoTogetherAreRefusedWithTheWorkloadsWords) {
  Catalogue catalogue = sample_catalogue();
  WorkloadInfo picky;
  picky.name = "picky";
  picky.options = {{"few", std::int64_t{1}, "a number", 0, 9, {}}};
  picky.refusal = [](const Options& options) {
    return std::get<std::int64_t>(options.at("few")) > 3 ? "few = 4 is not few" : "";
  };
  catalogue.add(picky);
  const std::string text = "format = 1\n[job]\nworkload = \"picky\"\noptions = { few = 4 }\n";
  const Parsed refused = parse_scenario(text, "t.toml", {}, catalogue);
  ASSERT_EQ(refused.problems.size(), 1u) << all_problems(refused);
  EXPECT_EQ(refused.problems[0].text(), "t.toml:4:1: `job.options`: few = 4 is not few");
  EXPECT_TRUE(parse_scenario(text, "t.toml", {"job.options.few=3"}, catalogue).scenario);
}

// Things that are no scenario file are named as what they are.
TEST(Parse, RefusesWhatIsNoFile) {
  const auto first = [](const std::string& file) {
    const Parsed parsed = load_scenario(file, {}, sample_catalogue());
    return parsed.problems.empty() ? std::string("accepted") : parsed.problems[0].text();
  };
  const std::string folder = testing::TempDir();
  const std::string empty = folder + "empty.toml", large = folder + "large.toml";
  std::ofstream(empty).close();
  std::ofstream(large) << std::string(kMaxFileBytes + 1, '\n');
  EXPECT_NE(first(empty).find(":1:1: the file is empty, expected a scenario"), std::string::npos);
  EXPECT_NE(first(folder).find(":1:1: this is a directory"), std::string::npos);
  EXPECT_NE(first(folder + "none.toml").find("No such file"), std::string::npos);
  EXPECT_NE(first(large).find("larger than 1MiB"), std::string::npos);
  EXPECT_NE(first("/proc/self/mem").find("cannot be read"), std::string::npos);
  ::unlink(empty.c_str());
  ::unlink(large.c_str());
}

/// A file of the corpus with a few bytes cut, doubled, changed or spliced in from another one.
std::string mutated(std::string text, const std::string& other) {
  const int changes = *rc::gen::inRange(1, 6);
  for (int i = 0; i < changes; ++i) {
    const auto at =
        static_cast<std::size_t>(*rc::gen::inRange<int>(0, static_cast<int>(text.size()) + 1));
    const auto length = static_cast<std::size_t>(*rc::gen::inRange(0, 40));
    switch (*rc::gen::inRange(0, 4)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, text.substr(at, length));
        break;
      case 2:
        text.insert(at, 1, static_cast<char>(*rc::gen::inRange(0, 256)));
        break;
      default:
        text.insert(at, other.substr(std::min(at, other.size()), length));
    }
  }
  return text;
}

// Whatever becomes of a scenario file, it is parsed or refused with a place; it never crashes.
RC_GTEST_PROP(ParseProperty, MutatedFilesParseOrAreRefusedWithAPlace, ()) {
  static const auto good = corpus("good");
  const CorpusFile& file = *rc::gen::elementOf(good);
  const Parsed parsed = parse(mutated(file.text, (*rc::gen::elementOf(good)).text));
  RC_ASSERT(parsed.scenario.has_value() == parsed.problems.empty());
  for (const Problem& problem : parsed.problems) {
    RC_ASSERT(problem.place.line >= 1u);
    RC_ASSERT(problem.place.column >= 1u);
    RC_ASSERT(!problem.message.empty());
    RC_ASSERT(problem.message.find('\n') == std::string::npos);
  }
}

// Keys nested by dots beyond any use are refused before toml++ recurses over them.
TEST(Parse, DeepKeysAreRefusedHoweverTheyAreWritten) {
  std::string dots;
  for (int i = 0; i < 100'000; ++i) dots += "a.";
  for (const std::string& text :
       {dots + "a = 1", "[" + dots + "a]", "x = { " + dots + "a = 1 }", "[[" + dots + "a]]",
        "x = { y = \"\"\"a\"\"\"\", " + dots + "a = 1 }", "'q' . " + dots + "a = 1"}) {
    const Parsed parsed = parse("format = 1\n" + text + "\n");
    ASSERT_FALSE(parsed.problems.empty());
    EXPECT_NE(parsed.problems[0].message.find("dots"), std::string::npos)
        << parsed.problems[0].text();
  }
}

}  // namespace
}  // namespace rehearse::harness
