#include "harness/catalogue.hpp"

#include <fmt/format.h>

namespace rehearse::harness {

std::string_view name(OptionType type) {
  switch (type) {
    case OptionType::integer:
      return "integer";
    case OptionType::number:
      return "number";
    case OptionType::text:
      return "string";
    case OptionType::boolean:
      return "boolean";
  }
  return "?";
}

std::string to_text(const OptionValue& value) {
  struct {
    std::string operator()(std::int64_t integer) const { return fmt::format("{}", integer); }
    std::string operator()(double number) const { return fmt::format("{}", number); }
    std::string operator()(const std::string& text) const { return fmt::format("\"{}\"", text); }
    std::string operator()(bool boolean) const { return boolean ? "true" : "false"; }
  } writer;
  return std::visit(writer, value);
}

const OptionSpec* WorkloadInfo::option(std::string_view option_name) const {
  for (const OptionSpec& spec : options) {
    if (spec.name == option_name) return &spec;
  }
  return nullptr;
}

Options WorkloadInfo::defaults() const {
  Options values;
  for (const OptionSpec& spec : options) values[spec.name] = spec.default_value;
  return values;
}

void Catalogue::add(WorkloadInfo workload) {
  const std::string key = workload.name;
  workloads_[key] = std::move(workload);
}

const WorkloadInfo* Catalogue::find(std::string_view workload_name) const {
  const auto found = workloads_.find(workload_name);
  return found == workloads_.end() ? nullptr : &found->second;
}

std::vector<std::string> Catalogue::names() const {
  std::vector<std::string> all_names;
  for (const auto& [workload_name, workload] : workloads_) all_names.push_back(workload_name);
  return all_names;
}

}  // namespace rehearse::harness
