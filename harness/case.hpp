#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/scenario.hpp"
#include "runtime/world/outcome.hpp"

namespace rehearse::harness {

/// One run of a scenario: which world, which seed.
struct Case {
  Scenario scenario;                   ///< overrides applied
  std::string file;                    ///< as the user named it
  std::vector<std::string> overrides;  ///< KEY=VALUE, as given
  WorldKind world = WorldKind::sim;
  std::uint64_t seed = 1;
  int repeat = 1;  ///< which of `repeats`, from 1
  int repeats = 1;
  Duration timeout = Duration::max();  ///< wall time of the run
  std::string transport;               ///< between processes, by name; empty: chosen by itself
  bool has_oracle = true;              ///< of the workload

  /// "sim", or "sim#2" where it is repeated: unique within a file.
  std::string name() const;
};

/// What a run came to; with a stable name and an exit code each.
enum class Verdict : std::uint8_t {
  passed,
  failed,             ///< a check failed, or the run hung
  harness_error,      ///< the run could not be made, or its report not written
  not_deterministic,  ///< a second run differed
  not_fired,          ///< a fault never fired, so nothing was shown
  unrecoverable,      ///< the file asks for what cannot be
  skipped,            ///< something it needs is not here
  timed_out,          ///< wall time was up
};
inline constexpr int kVerdicts = static_cast<int>(Verdict::timed_out) + 1;
std::string_view name(Verdict verdict);
int exit_code(Verdict verdict);

/// Of several runs: the first present of 3, 124, 1, 4, 6, 7; 77 only if all were skipped.
int exit_code(const std::vector<Verdict>& verdicts);

/// One thing that was looked at.
struct CheckResult {
  enum class State : std::uint8_t { passed, failed, unchecked } state = State::passed;
  std::string name;      ///< one of `check_names()`
  std::string expected;  ///< in words
  std::string actual;
  std::string where;  ///< worker, step, …; empty: nowhere in particular
};
std::string_view name(CheckResult::State state);
std::vector<std::string> check_names();

/// The place of a gradient that has the wrong bits.
struct GradientPlace {
  int rank = 0;           ///< that holds the leaf
  std::string context;    ///< "step 3, context 0 of w1, pass 0"
  std::string parameter;  ///< "leaf 2" in the canonical order of first use
  std::optional<std::int64_t> index;
};

struct GradientReport {
  std::uint64_t compared = 0;
  std::uint64_t different = 0;
  std::uint64_t digest = 0;  ///< of the sorted journal
  std::optional<std::int64_t> max_ulp;
  std::string tolerance;  ///< "bitwise", "max_ulp 4", "relative 1e-06", "unchecked"
  std::optional<GradientPlace> first_difference;
};

struct CaseResult {
  Case run;
  RunOutcome outcome;
  Verdict verdict = Verdict::passed;
  std::vector<CheckResult> checks;
  GradientReport gradients;
  std::string first_cause;  ///< one sentence; empty when passed
  std::string skip_reason;
  std::string missing_resource;
  std::string expanded_file;  ///< the scenario as it was run; set by the command line
  std::string reproduce;      ///< one line to copy; set by the command line
  std::string started_at;     ///< UTC, ISO 8601; set by the command line
  double wall_s = 0;          ///< set by the command line
};

/// A result without a run: skipped, or an error of the harness.
CaseResult without_run(const Case& run, Verdict verdict, const std::string& why);

/// Makes runs of cases. Given to the command line by the program that was built with the worlds.
class Runner {
 public:
  virtual ~Runner() = default;

  /// Runs the case, and its fault-free uncut twin where it has an oracle, and judges it
  /// (verdict.hpp). What goes wrong in the job is in the result; an exception is an error of the
  /// harness.
  virtual CaseResult run(const Case& run) = 0;

  /// The same, and once more with another memory layout: `judge_determinism` of both.
  virtual CaseResult run_twice(const Case& run) = 0;

  /// Why `world` cannot be run here ("built without SimGrid"); nothing if it can.
  virtual std::optional<std::string> missing(WorldKind world) const = 0;
};

}  // namespace rehearse::harness
