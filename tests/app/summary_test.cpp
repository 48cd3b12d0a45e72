#include "reports/summary.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "tests/harness/samples.hpp"

namespace rehearse::reports {
namespace {

using harness::CaseResult;

CaseResult passing() { return harness::judge(harness::sample_case(), harness::sample_evidence()); }

CaseResult hanging(int waiting) {
  auto evidence = harness::sample_evidence();
  evidence.outcome.end = RunOutcome::End::hung;
  for (int i = 0; i < waiting; ++i) {
    evidence.outcome.waiting.push_back(
        {"w" + std::to_string(i), "main", Duty::foreground, "reply", "w9", Time(), kNever});
  }
  CaseResult result = harness::judge(harness::sample_case(), evidence);
  result.reproduce = "rehearse run sample.toml --world sim --seed 1";
  return result;
}

long lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

// However many runs, and whatever became of them.
RC_GTEST_PROP(SummaryProperty, NeverHasMoreThanFifteenLines, ()) {
  std::vector<CaseResult> results;
  const int count = *rc::gen::inRange(1, 40);
  for (int i = 0; i < count; ++i) {
    results.push_back(*rc::gen::inRange(0, 2) == 0 ? passing() : hanging(*rc::gen::inRange(0, 30)));
  }
  const std::string text = summary(results, false);
  RC_ASSERT(lines(text) <= kSummaryLines);
  const bool failed = std::any_of(results.begin(), results.end(), [](const CaseResult& result) {
    return result.verdict != harness::Verdict::passed;
  });
  RC_ASSERT(failed == (text.find("  rehearse run sample.toml") != std::string::npos));
}

TEST(Summary, AHungRunShowsWhoWaitsAndEndsWithTheCommand) {
  const std::string text = summary({hanging(3)}, false);
  EXPECT_EQ(lines(text), 6);
  EXPECT_NE(text.find("w2 task main waits for reply from w9"), std::string::npos);
  EXPECT_TRUE(text.ends_with("  rehearse run sample.toml --world sim --seed 1\n"));
  EXPECT_EQ(lines(summary({hanging(30)}, false)), kSummaryLines);
}

TEST(Summary, SaysWhatWasNotChecked) {
  harness::Case run = harness::sample_case();
  run.scenario.expect.leaks_checked = false;
  const std::string text = summary({harness::judge(run, harness::sample_evidence())}, false);
  EXPECT_NE(text.find("not checked: leaks (turned off by the scenario)"), std::string::npos)
      << text;
}

TEST(Summary, ColoursOnlyWhereAskedFor) {
  EXPECT_EQ(summary({passing()}, false).find('\x1b'), std::string::npos);
  EXPECT_NE(summary({passing()}, true).find("\x1b[32mpassed"), std::string::npos);
  EXPECT_NE(summary({hanging(0)}, true).find("\x1b[31mfailed"), std::string::npos);
}

}  // namespace
}  // namespace rehearse::reports
