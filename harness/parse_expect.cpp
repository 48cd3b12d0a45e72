#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "harness/fields.hpp"
#include "harness/parse_parts.hpp"
#include "harness/units.hpp"

namespace rehearse::harness {
namespace {

constexpr std::string_view kClosenessExamples =
    "\"bitwise\", \"unchecked\", { max_ulp = 4 } or { relative = 1e-6 }";

Closeness read_bound(const Value& value, const std::string& path, Problems& problems) {
  Fields fields(value, kClosenessKeys, path, problems);
  if (value.entries.size() != 1) {
    problems.add(value.place, fmt::format("`{}` has {} bounds, expected one: {}", path,
                                          value.entries.size(), kClosenessExamples));
  }
  Closeness closeness;
  constexpr std::int64_t kMaxUlp = std::numeric_limits<std::int64_t>::max();
  if (auto ulp = fields.integer("max_ulp", 0, kMaxUlp)) {
    closeness = {Closeness::Kind::max_ulp, *ulp, 0};
  }
  const Value* relative = fields.find("relative");
  constexpr double kMaxRelative = std::numeric_limits<double>::max();
  if (!relative) return closeness;
  if (auto bound = number_of(*relative, path + ".relative", 0, kMaxRelative, problems)) {
    closeness = {Closeness::Kind::relative, 0, *bound};
  }
  return closeness;
}

std::optional<Closeness> read_closeness(Fields& expect, std::string_view key, Problems& problems) {
  const Value* value = expect.find(key);
  if (!value) return std::nullopt;
  Closeness closeness;
  const std::string path = expect.path_of(key);
  if (value->type == Value::Type::table) {
    closeness = read_bound(*value, path, problems);
  } else if (value->type != Value::Type::text) {
    expect.refuse(value->place, wrong_type(path, *value, kClosenessExamples));
  } else if (value->text == "unchecked") {
    closeness.kind = Closeness::Kind::unchecked;
  } else if (value->text != "bitwise") {
    expect.refuse(value->place, unknown_name(fmt::format("value of `{}`:", path), value->text,
                                             {"bitwise", "unchecked"}));
  }
  return closeness;
}

Code read_code(Fields& outcome) {
  if (!outcome.required("fails_with", "`fails_with = \"peer_lost\"`")) return Code::ok;
  const auto text = outcome.text("fails_with", "\"peer_lost\"");
  if (!text) return Code::ok;
  const auto codes = code_names();
  const auto found = std::find(codes.begin(), codes.end(), *text);
  if (found != codes.end()) return static_cast<Code>(found - codes.begin() + 1);
  const bool later = contains(kLaterCodes, *text);
  outcome.refuse(outcome.find("fails_with")->place,
                 later ? not_supported_yet(fmt::format("code \"{}\"", *text))
                       : unknown_name("code", *text, codes));
  return Code::ok;
}

std::optional<FaultTarget> read_outcome_who(Fields& outcome, std::string_view key,
                                            ParseContext& context) {
  const Value* value = outcome.table(key, "{ rank = 1 }");
  if (!value) return std::nullopt;
  auto who = read_who(*value, outcome.path_of(key), context);
  if (who && who->kind == FaultTarget::Kind::link) {
    outcome.refuse(value->place, fmt::format("`{}` takes no link, expected workers such as "
                                             "{{ rank = 1 }}",
                                             outcome.path_of(key)));
  }
  return who;
}

ExpectedOutcome read_outcome(Fields& expect, ParseContext& context) {
  ExpectedOutcome expected;
  const Value* value = expect.find("outcome");
  if (!value) return expected;
  if (value->type == Value::Type::text && value->text == "completes") return expected;
  if (value->type != Value::Type::table) {
    expect.refuse(value->place, wrong_type("expect.outcome", *value,
                                           "\"completes\" or { fails_with = \"peer_lost\" }"));
    return expected;
  }
  Fields outcome(*value, kOutcomeKeys, "expect.outcome", context.problems);
  expected.completes = false;
  expected.fails_with = read_code(outcome);
  expected.on = read_outcome_who(outcome, "on", context);
  expected.names = read_outcome_who(outcome, "names", context);
  expected.within = outcome.quantity("within", parse_duration, "5s");
  return expected;
}

}  // namespace

Expect read_expect(const Value& value, ParseContext& context) {
  Expect expect;
  Fields fields(value, kExpectKeys, "expect", context.problems);
  if (auto gradients = read_closeness(fields, "gradients", context.problems)) {
    expect.gradients = *gradients;
  }
  expect.final_parameters = read_closeness(fields, "final_parameters", context.problems);
  if (auto leaks = fields.text("leaks", "\"none\"")) {
    expect.leaks_checked = *leaks != "unchecked";
    if (*leaks != "none" && *leaks != "unchecked") {
      fields.refuse(fields.find("leaks")->place,
                    unknown_name("value of `expect.leaks`:", *leaks, {"none", "unchecked"}));
    }
  }
  expect.outcome = read_outcome(fields, context);
  return expect;
}

}  // namespace rehearse::harness
