#include "harness/schema.hpp"

#include "harness/keys.hpp"
#include "harness/scenario.hpp"
#include "harness/units.hpp"

namespace rehearse::harness {
namespace {

using Json = nlohmann::ordered_json;

Json integer(std::int64_t min) { return Json::object({{"type", "integer"}, {"minimum", min}}); }

Json integer(std::int64_t min, std::int64_t max) {
  Json schema = integer(min);
  schema["maximum"] = max;
  return schema;
}

Json names(const std::vector<std::string>& all) { return Json::object({{"enum", all}}); }
Json text() { return Json::object({{"type", "string"}}); }

Json pattern(const char* expression) {
  return Json::object({{"type", "string"}, {"pattern", expression}});
}

Json list(Json items, int min_items = 1) {
  return Json::object({{"type", "array"}, {"items", std::move(items)}, {"minItems", min_items}});
}

Json any_of(std::vector<Json> schemas) { return Json::object({{"anyOf", std::move(schemas)}}); }

Json one_or_list(const Json& one) { return any_of({one, list(one)}); }

/// A table with no other keys than these.
Json table(Json properties, std::vector<std::string> required = {}) {
  Json schema = Json::object({{"type", "object"}, {"properties", std::move(properties)}});
  if (!required.empty()) schema["required"] = required;
  schema["additionalProperties"] = false;
  return schema;
}

Json requires_key(const char* key) { return Json::object({{"required", {key}}}); }

Json exactly_one_of(std::initializer_list<const char*> keys) {
  Json alternatives = Json::array();
  for (const char* key : keys) alternatives.push_back(requires_key(key));
  return alternatives;
}

/// `key` is allowed only beside one of `anchors`.
Json narrows(const char* key, std::initializer_list<const char*> anchors) {
  Json beside = Json::array();
  for (const char* anchor : anchors) beside.push_back(requires_key(anchor));
  return Json::object({{"if", requires_key(key)}, {"then", Json::object({{"anyOf", beside}})}});
}

Json duration() { return pattern(kDurationPattern); }
Json rank() { return integer(0); }

Json who(bool links) {
  Json properties = {{"rank", one_or_list(rank())}, {"worker", one_or_list(pattern("^w[0-9]+$"))}};
  if (links) {
    Json link = list(rank(), 2);
    link["maxItems"] = 2;
    properties["link"] = link;
    properties["both"] = Json::object({{"type", "boolean"}});
  }
  properties["everyone"] = Json::object({{"const", true}});
  Json schema = table(properties);
  schema["oneOf"] = links ? exactly_one_of({"rank", "worker", "link", "everyone"})
                          : exactly_one_of({"rank", "worker", "everyone"});
  if (links) schema["allOf"] = Json::array({narrows("both", {"link"})});
  return schema;
}

Json when() {
  Json schema = table({{"step", integer(0)},
                       {"event", names(trigger_event_names())},
                       {"time", duration()},
                       {"probability", {{"type", "number"}, {"minimum", 0}, {"maximum", 1}}},
                       {"rank", rank()},
                       {"phase", pattern("^[a-z0-9_-]+$")},
                       {"nth", integer(1)}});
  schema["oneOf"] = exactly_one_of({"step", "event", "time", "probability"});
  schema["allOf"] = Json::array(
      {narrows("phase", {"step"}), narrows("rank", {"step"}), narrows("nth", {"step", "event"})});
  return schema;
}

Json fault_of(const char* kind, Json properties) {
  Json all = {{"id", pattern("^[a-z0-9-]+$")},
              {"kind", Json::object({{"const", kind}})},
              {"who", who(std::string_view(kind) != "kill")},
              {"when", when()}};
  all.update(properties);
  return table(all, {"id", "kind", "who", "when"});
}

Json fault() {
  Json message = one_or_list(names(message_names()));
  Json kill = fault_of("kill", {{"seen_as", names({"reset", "silent"})}});
  Json delay = fault_of(
      "delay",
      {{"for", duration()}, {"by", duration()}, {"jitter", duration()}, {"message", message}});
  delay["anyOf"] = exactly_one_of({"by", "jitter"});
  Json reorder =
      fault_of("reorder", {{"for", duration()}, {"by", duration()}, {"message", message}});
  return any_of({kill, delay, reorder});
}

Json closeness() {
  Json bound = table({{"max_ulp", integer(0)}, {"relative", {{"type", "number"}, {"minimum", 0}}}});
  bound["oneOf"] = exactly_one_of({"max_ulp", "relative"});
  return any_of({names({"bitwise", "unchecked"}), bound});
}

Json expect() {
  Json fails = table({{"fails_with", names(code_names())},
                      {"on", who(false)},
                      {"names", who(false)},
                      {"within", duration()}},
                     {"fails_with"});
  return table({{"gradients", closeness()},
                {"leaks", names({"none", "unchecked"})},
                {"final_parameters", closeness()},
                {"outcome", any_of({Json::object({{"const", "completes"}}), fails})}});
}

Json cluster() {
  return table(
      {{"hosts", integer(1, 65'535)},
       {"workers_per_host", integer(1, 65'535)},
       {"link", table({{"bandwidth", pattern(kBandwidthPattern)}, {"latency", duration()}})},
       {"host", table({{"speed", pattern(kSpeedPattern)},
                       {"memory_bandwidth", pattern(kBandwidthPattern)}})}});
}

Json option(const OptionSpec& spec) {
  Json schema = Json::object();
  switch (spec.type()) {
    case OptionType::integer:
      schema["type"] = "integer";
      if (spec.min) schema["minimum"] = static_cast<std::int64_t>(*spec.min);
      if (spec.max) schema["maximum"] = static_cast<std::int64_t>(*spec.max);
      break;
    case OptionType::number:
      schema["type"] = "number";
      if (spec.min) schema["minimum"] = *spec.min;
      if (spec.max) schema["maximum"] = *spec.max;
      break;
    case OptionType::text:
      schema["type"] = "string";
      if (!spec.choices.empty()) schema["enum"] = spec.choices;
      break;
    case OptionType::boolean:
      schema["type"] = "boolean";
      break;
  }
  schema["description"] = spec.help;
  schema["default"] = std::visit([](const auto& held) { return Json(held); }, spec.default_value);
  return schema;
}

/// If the workload is this one, then the options are its.
Json options_of(const WorkloadInfo& workload) {
  Json properties = Json::object();
  for (const OptionSpec& spec : workload.options) properties[spec.name] = option(spec);
  const Json chosen = Json::object({{"const", workload.name}});
  const Json is_it = Json::object({{"properties", Json::object({{"workload", chosen}})}});
  const Json has = Json::object({{"properties", Json::object({{"options", table(properties)}})}});
  return Json::object({{"if", is_it}, {"then", has}});
}

Json job(const Catalogue& catalogue) {
  Json schema = table({{"workload", names(catalogue.names())},
                       {"steps", integer(1, 1'000'000'000)},
                       {"options", Json::object({{"type", "object"}})}},
                      {"workload"});
  Json branches = Json::array();
  for (const auto& [key, workload] : catalogue.all()) branches.push_back(options_of(workload));
  if (!branches.empty()) schema["allOf"] = branches;
  return schema;
}

}  // namespace

Json scenario_schema(const Catalogue& catalogue) {
  Json worlds = list(names(world_names()));
  worlds["uniqueItems"] = true;
  Json name = text();
  name["minLength"] = 1;
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", "A scenario of Rehearse"}};
  schema.update(table({{"format", Json::object({{"const", 1}})},
                       {"name", name},
                       {"seed", integer(0)},
                       {"worlds", worlds},
                       {"cluster", cluster()},
                       {"job", job(catalogue)},
                       {"fault", list(fault(), 0)},
                       {"expect", expect()}},
                      {"format", "job"}));
  return schema;
}

}  // namespace rehearse::harness
