#include "app/list_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "app/command_line.hpp"
#include "harness/keys.hpp"
#include "harness/text.hpp"

namespace rehearse::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Rows of objects that all have "name".
Json named(const std::vector<std::string>& names) {
  Json rows = Json::array();
  for (const std::string& each : names) rows.push_back(Json::object({{"name", each}}));
  return rows;
}

Json workloads(const harness::Catalogue& catalogue) {
  Json rows = Json::array();
  for (const auto& [key, workload] : catalogue.all()) {
    rows.push_back(Json::object(
        {{"name", workload.name}, {"help", workload.help}, {"has_oracle", workload.has_oracle}}));
  }
  return rows;
}

Json to_json(const harness::OptionValue& value) {
  return std::visit([](const auto& held) { return Json(held); }, value);
}

Json option_row(const harness::WorkloadInfo& workload, const harness::OptionSpec& spec) {
  Json row = Json::object({{"name", spec.name},
                           {"workload", workload.name},
                           {"type", harness::name(spec.type())},
                           {"default", to_json(spec.default_value)},
                           {"help", spec.help}});
  if (spec.min) row["min"] = *spec.min;
  if (spec.max) row["max"] = *spec.max;
  if (!spec.choices.empty()) row["choices"] = spec.choices;
  return row;
}

Json options(const harness::Catalogue& catalogue) {
  Json rows = Json::array();
  for (const auto& [key, workload] : catalogue.all()) {
    for (const auto& spec : workload.options) rows.push_back(option_row(workload, spec));
  }
  return rows;
}

Json rows_of(const std::string& what, const harness::Catalogue& catalogue) {
  if (what == "kinds") return named(harness::fault_kind_names());
  if (what == "events") return named(harness::event_names());
  if (what == "phases") return named(harness::strings(harness::kPhases));
  if (what == "messages") return named(harness::message_names());
  if (what == "workloads") return workloads(catalogue);
  if (what == "options") return options(catalogue);
  if (what == "checks") return named(harness::check_names());
  return named(harness::code_names());
}

std::string line_of(const Json& row) {
  const std::string name = row["name"];
  if (row.contains("workload")) {
    return fmt::format("{}.{} = {}  ({}) {}", row["workload"].get<std::string>(), name,
                       row["default"].dump(), row["type"].get<std::string>(),
                       row["help"].get<std::string>());
  }
  return row.contains("help") ? fmt::format("{}  {}", name, row["help"].get<std::string>()) : name;
}

}  // namespace

int list_command(const std::string& what, bool json, const Setup& setup, const Streams& streams) {
  const auto topics = list_topics();
  if (std::find(topics.begin(), topics.end(), what) == topics.end()) {
    streams.err << "cannot list " << harness::in_quotes(what)
                << harness::instead_of(what, topics, '`') << '\n';
    return kBadInput;
  }
  const Json rows = rows_of(what, setup.catalogue);
  if (json) {
    streams.out << rows.dump(2) << '\n';
    return 0;
  }
  for (const Json& row : rows) streams.out << line_of(row) << '\n';
  return 0;
}

}  // namespace rehearse::cli
