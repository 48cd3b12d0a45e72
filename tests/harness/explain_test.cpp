#include "harness/explain.hpp"

#include <gtest/gtest.h>

#include "harness/parse.hpp"
#include "tests/harness/sample_catalogue.hpp"

namespace rehearse::harness {
namespace {

std::string explained(const std::string& name) {
  const std::string file = "tests/harness/corpus/good/" + name + ".toml";
  const Parsed parsed = load_scenario(file, {}, sample_catalogue());
  return explain(parsed.scenario.value(), sample_catalogue());
}

void expect_lines(const std::string& text, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
}

// Bandwidths in bits and in bytes, every fault as a sentence, and all checks.
TEST(Explain, SaysThePlanInWords) {
  expect_lines(explained("everything"),
               {"3 hosts with 2 workers each: w0 to w5", "link 10Gbps (1.25GBps), latency 50us",
                "hidden = 32 (default): width of the hidden layers", "needs 5 workers at least",
                "worker-dies: when w0 enters step 5, phase backward, kills w2; peers see silence",
                "slow-link: at the event pass_started of the target, time 3 that this happens, "
                "delays grad, start messages of the link w0 <-> w1 by 5ms and up to 1.5ms more, "
                "for 2s",
                "mixed-up: with probability 0.25 per message, drawn from the seed, reorders reply "
                "messages of everyone by at most 1ms, to the end of the run",
                "w0 fails with peer_lost, naming w2, within 5s of the first fault",
                "gradients equal those of the fault-free single-process run: bitwise",
                "not checked: final parameters", "call 60s"});
}

// What the file leaves out is checked, and what it turns off is said.
TEST(Explain, SaysWhatIsCheckedByDefaultAndWhatIsNot) {
  expect_lines(explained("minimal"),
               {"faults     none", "every worker finishes", "no worker waits for ever",
                "gradients equal those of the fault-free single-process run: bitwise",
                "not checked: final parameters (not asked for)"});
  expect_lines(explained("unchecked"), {"not checked: gradients", "not checked: leaks"});
}

}  // namespace
}  // namespace rehearse::harness
