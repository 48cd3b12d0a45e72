#include "reports/json_report.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rehearse::reports {

using harness::CaseResult;
using harness::CheckResult;
using harness::Verdict;
using Json = nlohmann::ordered_json;

namespace {

double seconds(Duration duration) { return static_cast<double>(duration.count()) / 1e9; }
double seconds(Time time) { return seconds(time.time_since_epoch()); }

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

template <class T>
Json value_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

bool was_run(const CaseResult& result) { return !result.outcome.workers.empty(); }

Json digest_or_null(std::uint64_t digest) { return digest == 0 ? Json() : Json(hex(digest)); }

Json wait_graph(const CaseResult& result) {
  Json graph = Json::array();
  for (const WaitingTask& waiting : result.outcome.waiting) {
    const bool forever = waiting.deadline == kNever;
    graph.push_back({{"worker", waiting.worker},
                     {"task", waiting.task},
                     {"background", waiting.duty == Duty::background},
                     {"what", waiting.what},
                     {"whom", text_or_null(waiting.whom)},
                     {"since_s", seconds(waiting.since)},
                     {"deadline_s", forever ? Json() : Json(seconds(waiting.deadline))}});
  }
  return graph;
}

Json checks(const CaseResult& result) {
  Json list = Json::array();
  for (const CheckResult& check : result.checks) {
    list.push_back({{"name", check.name},
                    {"verdict", harness::name(check.state)},
                    {"expected", text_or_null(check.expected)},
                    {"actual", check.actual},
                    {"where", text_or_null(check.where)}});
  }
  return list;
}

Json faults(const CaseResult& result) {
  Json list = Json::array();
  const auto& specs = result.run.scenario.faults;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto& outcomes = result.outcome.faults;
    const FaultOutcome fault = i < outcomes.size() ? outcomes[i] : FaultOutcome();
    const Json first = fault.fired > 0 ? Json(seconds(fault.first_fired)) : Json();
    list.push_back({{"id", specs[i].id},
                    {"kind", name(specs[i].kind)},
                    {"fired", fault.fired},
                    {"first_fired_at_s", first}});
  }
  return list;
}

Json gradients(const CaseResult& result) {
  const harness::GradientReport& report = result.gradients;
  Json first;
  if (report.first_difference) {
    first = {{"rank", report.first_difference->rank},
             {"context", report.first_difference->context},
             {"parameter", report.first_difference->parameter},
             {"index", value_or_null(report.first_difference->index)}};
  }
  return {{"compared", report.compared},
          {"different", report.different},
          {"digest", was_run(result) ? Json(hex(report.digest)) : Json()},
          {"max_ulp", value_or_null(report.max_ulp)},
          {"tolerance", text_or_null(report.tolerance)},
          {"first_difference", first}};
}

Json workers(const CaseResult& result) {
  Json list = Json::array();
  for (const WorkerOutcome& worker : result.outcome.workers) {
    list.push_back({{"worker", worker.name},
                    {"rank", worker.rank},
                    {"attempt", 0},
                    {"exit_code", worker.exit_code},
                    {"signal", worker.signal},
                    {"log", text_or_null(worker.log)},
                    {"last_lines", worker.last_lines}});
  }
  return list;
}

/// All counters of the run; those that scripts rely on are there even if nothing counted them.
Json counters(const CaseResult& result) {
  Json all;
  for (const char* promised : {"messages", "bytes", "contexts_live", "passes_live", "tasks_live",
                               "restarts", "membership_changes"}) {
    all[promised] = 0;
  }
  for (const auto& [counter, count] : result.outcome.counters) all[counter] = count;
  return all;
}

Json final_parameters(const CaseResult& result) {
  const auto found = result.outcome.digests.find("final_parameters");
  return found == result.outcome.digests.end() ? Json() : Json(hex(found->second));
}

Json events_per_s(const CaseResult& result) {
  const auto events = result.outcome.counters.find("events");
  if (events == result.outcome.counters.end() || result.wall_s <= 0) return {};
  return static_cast<double>(events->second) / result.wall_s;
}

void add_identity(const CaseResult& result, const Identity& identity, Json& json) {
  json["format"] = 1;
  json["kind"] = "run";
  json["program"] = identity.program;
  json["version"] = identity.version;
  json["commit"] = text_or_null(identity.commit);
  json["torch"] = text_or_null(identity.torch);
  json["machine"] = identity.machine;
  json["scenario"] = result.run.scenario.name;
  json["file"] = result.run.file;
  json["case"] = result.run.name();
  json["expanded_file"] = text_or_null(result.expanded_file);
  json["world"] = harness::name(result.run.world);
  json["device"] = "cpu";
  json["seed"] = result.run.seed;
  json["started_at"] = text_or_null(result.started_at);
}

}  // namespace

std::string hex(std::uint64_t digest) { return fmt::format("{:016x}", digest); }

Json to_json(const CaseResult& result, const Identity& identity) {
  Json json;
  add_identity(result, identity, json);
  json["verdict"] = harness::name(result.verdict);
  json["first_cause"] = text_or_null(result.first_cause);
  json["wait_graph"] = wait_graph(result);
  json["missing_resource"] = text_or_null(result.missing_resource);
  json["skip_reason"] = text_or_null(result.skip_reason);
  json["digest"] = digest_or_null(result.outcome.digest);
  json["final_parameters_digest"] = final_parameters(result);
  json["checks"] = checks(result);
  json["faults"] = faults(result);
  json["gradients"] = gradients(result);
  json["recoveries"] = Json::array();
  json["workers"] = workers(result);
  json["counters"] = counters(result);
  json["time"] = {{"world_s", seconds(result.outcome.world_end)}, {"wall_s", result.wall_s}};
  json["events_per_s"] = events_per_s(result);
  json["reproduce"] = text_or_null(result.reproduce);
  return json;
}

Json report(const std::vector<CaseResult>& results, const Identity& identity) {
  if (results.size() == 1) return to_json(results[0], identity);
  Json summary = {{"cases", results.size()}};
  std::vector<Verdict> verdicts;
  for (const CaseResult& result : results) verdicts.push_back(result.verdict);
  for (int i = 0; i < harness::kVerdicts; ++i) {
    const auto verdict = static_cast<Verdict>(i);
    summary[std::string(harness::name(verdict))] =
        std::count(verdicts.begin(), verdicts.end(), verdict);
  }
  summary["exit_code"] = harness::exit_code(verdicts);
  Json runs = Json::array();
  for (const CaseResult& result : results) runs.push_back(to_json(result, identity));
  return {{"format", 1}, {"summary", summary}, {"runs", runs}};
}

}  // namespace rehearse::reports
