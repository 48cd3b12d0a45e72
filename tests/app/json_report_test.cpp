#include "reports/json_report.hpp"

#include <gtest/gtest.h>

#include "tests/harness/samples.hpp"
#include "tests/harness/schema_validator.hpp"

namespace rehearse::reports {
namespace {

using harness::CaseResult;
using nlohmann::ordered_json;

CaseResult sample() { return harness::judge(harness::sample_case(), harness::sample_evidence()); }

/// A result in which as much as possible is filled in.
CaseResult full() {
  auto evidence = harness::sample_evidence();
  evidence.outcome.end = RunOutcome::End::hung;
  evidence.outcome.journal[0].digest += 1;
  evidence.outcome.waiting = {
      {"w0", "main", Duty::foreground, "reply", "w2", Time(), kNever},
      {"w1", "rpc", Duty::background, "message", "", Time(), Time(std::chrono::seconds(2))}};
  evidence.outcome.workers[1].last_lines = {"a", "b"};
  CaseResult result = harness::judge(harness::sample_case(), evidence);
  result.reproduce = "rehearse run x";
  return result;
}

// Names and order of the fields are a promise to scripts.
TEST(JsonReport, HasTheFieldsInTheirOrder) {
  std::vector<std::string> keys;
  const ordered_json json = to_json(sample(), {});
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  const std::vector<std::string> promised = {"format",
                                             "kind",
                                             "program",
                                             "version",
                                             "commit",
                                             "torch",
                                             "machine",
                                             "scenario",
                                             "file",
                                             "case",
                                             "expanded_file",
                                             "world",
                                             "device",
                                             "seed",
                                             "started_at",
                                             "verdict",
                                             "first_cause",
                                             "wait_graph",
                                             "missing_resource",
                                             "skip_reason",
                                             "digest",
                                             "final_parameters_digest",
                                             "checks",
                                             "faults",
                                             "gradients",
                                             "recoveries",
                                             "workers",
                                             "counters",
                                             "time",
                                             "events_per_s",
                                             "reproduce"};
  EXPECT_EQ(keys, promised);
}

TEST(JsonReport, CarriesTheValues) {
  const ordered_json json = to_json(sample(), {});
  EXPECT_EQ(json["verdict"], "passed");
  EXPECT_EQ(json["digest"], "0000000000001234");
  EXPECT_EQ(json["final_parameters_digest"], "0000000000000abc");
  EXPECT_EQ(json["gradients"]["compared"], 12);
  EXPECT_EQ(json["gradients"]["digest"].get<std::string>().size(), 16u);
  EXPECT_EQ(json["faults"][0]["id"], "worker-dies");
  EXPECT_EQ(json["faults"][0]["fired"], 1);
  EXPECT_DOUBLE_EQ(json["faults"][0]["first_fired_at_s"], 0.5);
  EXPECT_DOUBLE_EQ(json["time"]["world_s"], 1.5);
  EXPECT_EQ(json["counters"]["messages"], 40);
  EXPECT_EQ(json["counters"]["restarts"], 0);
}

TEST(JsonReport, ShowsWhoWaits) {
  const ordered_json json = to_json(full(), {});
  EXPECT_EQ(json["wait_graph"].size(), 2u);
  EXPECT_EQ(json["wait_graph"][0]["whom"], "w2");
  EXPECT_TRUE(json["wait_graph"][0]["deadline_s"].is_null());
  EXPECT_EQ(json["gradients"]["first_difference"]["rank"], 0);
}

// All shapes of reports agree with the schema that is shipped; a misspelt field would not.
TEST(JsonReport, AgreesWithItsSchema) {
  const ordered_json schema = report_schema();
  const auto skipped =
      harness::without_run(harness::sample_case(), harness::Verdict::skipped, "no SimGrid");
  for (const auto& results : std::vector<std::vector<CaseResult>>{
           {sample()}, {full()}, {skipped}, {sample(), full()}, {}}) {
    EXPECT_EQ(harness::refusal(report(results, {}), schema), "");
  }
  ordered_json wrong = report({sample()}, {});
  wrong["gradients"]["comparred"] = 1;
  EXPECT_NE(harness::refusal(wrong, schema), "");
}

}  // namespace
}  // namespace rehearse::reports
