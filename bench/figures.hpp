#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace rehearse::bench {

using SteadyClock = std::chrono::steady_clock;
using Samples = std::vector<double>;

double microseconds_since(SteadyClock::time_point start);

/// The value below which `part` of the samples lie. REQUIRES: there are samples.
double quantile(Samples samples, double part);
inline double median(const Samples& samples) { return quantile(samples, 0.5); }

/// One line of a bench: `ours`, one value a round, and what it is compared with, if anything, from
/// the same rounds.
struct Figure {
  std::string name;
  std::string unit = "us";  ///< of the values; "us" or "messages_per_s"
  Samples ours;
  std::string versus;  ///< what `theirs` is; empty: nothing
  Samples theirs;
};

/// {"name", "unit", "median", "min", "max"}, and with something to compare with "<versus>_median",
/// "ratio" (median of the rounds' ratios), "spread" ([least, greatest] of them).
nlohmann::json json_of(const Figure& figure);

/// A table for people.
std::string table_of(const nlohmann::json& rows);

/// Prints the table and, unless `file` is empty, writes {"load_1min", "rows"} there. Returns the
/// exit status: 3 if the file cannot be written.
int publish(const nlohmann::json& rows, const std::string& file);

}  // namespace rehearse::bench
