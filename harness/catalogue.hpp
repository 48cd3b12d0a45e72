#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace rehearse::harness {

enum class OptionType : std::uint8_t { integer, number, text, boolean };
std::string_view name(OptionType type);

/// The alternative held is that of the option's type, in the order of `OptionType`.
using OptionValue = std::variant<std::int64_t, double, std::string, bool>;
using Options = std::map<std::string, OptionValue>;

/// As a scenario file would write it: 32, 0.5, "float32", true.
std::string to_text(const OptionValue& value);

/// One option that a workload declares.
struct OptionSpec {
  std::string name;
  OptionValue default_value;
  std::string help;                  ///< one sentence, with the unit if there is one
  std::optional<double> min;         ///< of integers and numbers
  std::optional<double> max;         ///< of integers and numbers
  std::vector<std::string> choices;  ///< of texts; empty: any

  OptionType type() const { return static_cast<OptionType>(default_value.index()); }
};

/// What the harness must know of a workload to check a scenario file; the program that runs it
/// knows the rest.
struct WorkloadInfo {
  std::string name;
  std::string help;
  std::vector<OptionSpec> options;
  /// The number of workers it needs at least, with these options (all of them set).
  std::function<std::int64_t(const Options&)> min_workers = [](const Options&) { return 1; };
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
