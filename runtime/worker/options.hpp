#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace rehearse {

enum class OptionType : std::uint8_t { integer, number, text, boolean };

/// The alternative held is that of the option's type, in the order of `OptionType`.
using OptionValue = std::variant<std::int64_t, double, std::string, bool>;
using OptionValues = std::map<std::string, OptionValue>;

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

/// The values of a workload's options in this run: those of the scenario file, else the defaults.
class Options {
 public:
  Options() = default;
  explicit Options(OptionValues values) : values_(std::move(values)) {}

  /// Each throws Error{bad_argument} if the workload declares no such option of that type.
  std::int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  bool flag(std::string_view name) const;

  const OptionValues& values() const { return values_; }

 private:
  template <class T>
  const T& get(std::string_view name, const char* type) const;

  OptionValues values_;
};

}  // namespace rehearse
