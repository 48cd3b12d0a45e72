#include "harness/expand.hpp"

#include <gtest/gtest.h>

#include "harness/parse.hpp"
#include "tests/harness/corpus.hpp"
#include "tests/harness/sample_catalogue.hpp"

namespace rehearse::harness {
namespace {

// An expanded file is a scenario file, and expanding it again changes nothing: nothing was lost.
TEST(Expand, GivesAFileThatSaysTheSame) {
  for (const CorpusFile& file : corpus("good")) {
    const Parsed parsed = parse_scenario(file.text, file.name, {}, sample_catalogue());
    ASSERT_TRUE(parsed.scenario) << file.name;
    const std::string once = expanded(*parsed.scenario, WorldKind::memory);
    const Parsed again = parse_scenario(once, "expanded.toml", {}, sample_catalogue());
    ASSERT_TRUE(again.scenario) << file.name << ": " << again.problems[0].text() << "\n" << once;
    EXPECT_EQ(expanded(*again.scenario, WorldKind::memory), once) << file.name;
    EXPECT_EQ(again.scenario->faults.size(), parsed.scenario->faults.size()) << file.name;
  }
}

// Overrides are applied, defaults filled in, and quantities are exact.
TEST(Expand, WritesWhatIsRun) {
  Parsed parsed = parse_scenario("format = 1\n[job]\nworkload = \"call_chain\"\n", "t.toml",
                                 {"cluster.hosts=2", "cluster.link.latency=1.5us", "name=a \"b\""},
                                 sample_catalogue());
  ASSERT_TRUE(parsed.scenario);
  parsed.scenario->seed = 9;
  const std::string text = expanded(*parsed.scenario, WorldKind::sim);
  for (const char* line :
       {"name = \"a \\\"b\\\"\"\n", "seed = 9\n", "worlds = [\"sim\"]\n", "hosts = 2\n",
        "latency = \"1500ns\"", "options = { depth = 4, width = 8 }\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

}  // namespace
}  // namespace rehearse::harness
