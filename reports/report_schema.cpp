#include "reports/json_report.hpp"

namespace rehearse::reports {
namespace {

using Json = nlohmann::ordered_json;

Json type(const char* name) { return {{"type", name}}; }
Json or_null(const char* name) { return {{"type", {name, "null"}}}; }
Json count() { return {{"type", "integer"}, {"minimum", 0}}; }
Json digest() { return {{"type", {"string", "null"}}, {"pattern", "^[0-9a-f]{16}$"}}; }
Json list(Json items) { return {{"type", "array"}, {"items", std::move(items)}}; }

/// An object with exactly these properties, all of them there.
Json object(const Json& properties) {
  Json required = Json::array();
  for (const auto& [key, value] : properties.items()) required.push_back(key);
  return {{"type", "object"},
          {"properties", properties},
          {"required", required},
          {"additionalProperties", false}};
}

Json verdicts() {
  Json names = Json::array();
  for (int i = 0; i < harness::kVerdicts; ++i) {
    names.push_back(harness::name(static_cast<harness::Verdict>(i)));
  }
  return {{"enum", names}};
}

Json waiting() {
  return object({{"worker", type("string")},
                 {"task", type("string")},
                 {"background", type("boolean")},
                 {"what", type("string")},
                 {"whom", or_null("string")},
                 {"since_s", type("number")},
                 {"deadline_s", or_null("number")}});
}

Json check() {
  return object({{"name", {{"enum", harness::check_names()}}},
                 {"verdict", {{"enum", {"passed", "failed", "unchecked"}}}},
                 {"expected", or_null("string")},
                 {"actual", type("string")},
                 {"where", or_null("string")}});
}

Json fault() {
  return object({{"id", type("string")},
                 {"kind", type("string")},
                 {"fired", count()},
                 {"first_fired_at_s", or_null("number")}});
}

Json gradients() {
  Json first = object({{"rank", count()},
                       {"context", type("string")},
                       {"parameter", type("string")},
                       {"index", or_null("integer")}});
  first["type"] = {"object", "null"};
  return object({{"compared", count()},
                 {"different", count()},
                 {"digest", digest()},
                 {"max_ulp", or_null("integer")},
                 {"tolerance", or_null("string")},
                 {"first_difference", first}});
}

Json worker() {
  return object({{"worker", type("string")},
                 {"rank", count()},
                 {"attempt", count()},
                 {"exit_code", type("integer")},
                 {"signal", type("integer")},
                 {"log", or_null("string")},
                 {"last_lines", list(type("string"))}});
}

Json counters() {
  return {{"type", "object"},
          {"additionalProperties", type("integer")},
          {"required",
           {"messages", "bytes", "contexts_live", "passes_live", "tasks_live", "restarts",
            "membership_changes"}}};
}

Json identity() {
  return {{"format", {{"const", 1}}},
          {"kind", {{"const", "run"}}},
          {"program", type("string")},
          {"version", type("string")},
          {"commit", or_null("string")},
          {"torch", or_null("string")},
          {"machine", type("string")},
          {"scenario", type("string")},
          {"file", type("string")},
          {"case", type("string")},
          {"expanded_file", or_null("string")},
          {"world", {{"enum", {"sim", "memory", "processes"}}}},
          {"device", {{"enum", {"cpu", "cuda"}}}},
          {"seed", count()},
          {"started_at", or_null("string")}};
}

Json run() {
  Json properties = identity();
  properties["verdict"] = verdicts();
  properties["first_cause"] = or_null("string");
  properties["wait_graph"] = list(waiting());
  properties["missing_resource"] = or_null("string");
  properties["skip_reason"] = or_null("string");
  properties["digest"] = digest();
  properties["final_parameters_digest"] = digest();
  properties["checks"] = list(check());
  properties["faults"] = list(fault());
  properties["gradients"] = gradients();
  properties["recoveries"] = list(type("object"));
  properties["workers"] = list(worker());
  properties["counters"] = counters();
  properties["time"] = object({{"world_s", type("number")}, {"wall_s", type("number")}});
  properties["events_per_s"] = or_null("number");
  properties["reproduce"] = or_null("string");
  return object(properties);
}

Json several() {
  return object({{"format", {{"const", 1}}},
                 {"summary", {{"type", "object"}, {"additionalProperties", type("integer")}}},
                 {"runs", list({{"$ref", "#/$defs/run"}})}});
}

}  // namespace

Json report_schema() {
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", "A report of rehearse run"},
          {"oneOf", {{{"$ref", "#/$defs/run"}}, {{"$ref", "#/$defs/several"}}}},
          {"$defs", {{"run", run()}, {"several", several()}}}};
}

}  // namespace rehearse::reports
