#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/worker/options.hpp"

namespace rehearse::harness {

using rehearse::OptionSpec;
using rehearse::OptionType;
using rehearse::OptionValue;
using Options = rehearse::OptionValues;
std::string_view name(OptionType type);

/// As a scenario file would write it: 32, 0.5, "float32", true.
std::string to_text(const OptionValue& value);

/// What the harness must know of a workload to check a scenario file; the program that runs it
/// knows the rest.
struct WorkloadInfo {
  std::string name;
  std::string help;
  std::vector<OptionSpec> options;
  /// The number of workers it needs at least, with these options (all of them set).
  std::function<std::int64_t(const Options&)> min_workers = [](const Options&) { return 1; };
  /// Why these options (all of them set) do not go together; empty: they do.
  std::function<std::string(const Options&)> refusal = [](const Options&) { return ""; };
  bool has_oracle = true;  ///< gradients can be compared with an uncut run

  const OptionSpec* option(std::string_view option_name) const;
  Options defaults() const;
};

/// The workloads that a program can run, by name.
class Catalogue {
 public:
  /// A later workload of the same name replaces the earlier one.
  void add(WorkloadInfo workload);
  const WorkloadInfo* find(std::string_view name) const;
  std::vector<std::string> names() const;  ///< sorted
  const std::map<std::string, WorkloadInfo, std::less<>>& all() const { return workloads_; }

 private:
  std::map<std::string, WorkloadInfo, std::less<>> workloads_;
};

}  // namespace rehearse::harness
