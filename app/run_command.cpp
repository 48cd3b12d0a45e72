#include "app/run_command.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <ostream>
#include <random>

#include "app/cases.hpp"
#include "app/expanded_files.hpp"
#include "app/progress.hpp"
#include "app/scenario_files.hpp"
#include "app/stop_signals.hpp"
#include "reports/report_file.hpp"
#include "reports/summary.hpp"

namespace rehearse::cli {
namespace {

using harness::Case;
using harness::CaseResult;
using harness::Verdict;

constexpr int kSignalled = 128;  // as a shell tells it

/// 48 bits: any JSON reader keeps them exact.
std::uint64_t draw_seed() {
  std::random_device device;
  return ((std::uint64_t{device()} << 32) | device()) >> 16;
}

std::string now_utc() {
  const auto now =
      std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)));
}

CaseResult run_checked(const Case& run, const RunOptions& options, harness::Runner& runner) {
  if (auto why = runner.missing(run.world)) {
    return harness::without_run(run, Verdict::skipped, *why);
  }
  try {
    return options.check_determinism ? runner.run_twice(run) : runner.run(run);
  } catch (const std::exception& error) {
    return harness::without_run(run, Verdict::harness_error, error.what());
  }
}

CaseResult run_case(const Case& run, const RunOptions& options, const Setup& setup,
                    const StopSignals& signals) {
  const std::string started_at = now_utc();
  const auto begin = std::chrono::steady_clock::now();
  CaseResult result;
  if (signals.pending() == 0) result = run_checked(run, options, setup.runner);
  if (const int signal = signals.pending()) {
    result = harness::without_run(run, Verdict::harness_error, "stopped by " + signal_text(signal));
  }
  result.run = run;
  result.started_at = started_at;
  result.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  result.reproduce = reproduce_line(run, options, setup.command);
  return result;
}

bool stops(const CaseResult& result) {
  return result.verdict != Verdict::passed && result.verdict != Verdict::skipped;
}

std::vector<CaseResult> run_all(const std::vector<Case>& cases, const RunOptions& options,
                                const Setup& setup, const Streams& streams,
                                const StopSignals& signals) {
  std::vector<CaseResult> results;
  Progress progress(streams.err, streams.progress);
  for (const Case& run : cases) {
    progress.show(fmt::format("[{}/{}] {} [{}]", results.size() + 1, cases.size(),
                              run.scenario.name, run.name()));
    results.push_back(run_case(run, options, setup, signals));
    if (signals.pending() != 0 || (options.fail_fast && stops(results.back()))) break;
  }
  return results;
}

void list_cases(const std::vector<Case>& cases, std::ostream& out) {
  for (const Case& run : cases) {
    out << fmt::format("{} [{}] seed {}: {}\n", run.file, run.name(), run.seed, run.scenario.name);
  }
}

int fail(const Streams& streams, const std::string& message, int code) {
  streams.err << message << '\n';
  return code;
}

/// Writes report and summary; the exit code of all.
int tell(std::vector<CaseResult> results, const RunOptions& options, const Setup& setup,
         const Streams& streams) {
  std::vector<Verdict> verdicts;
  for (const CaseResult& result : results) verdicts.push_back(result.verdict);
  const bool to_stdout = options.json == "-";
  // With `--json -` nothing but JSON is on standard output.
  (to_stdout ? streams.err : streams.out)
      << reports::summary(results, streams.colours && !to_stdout);
  if (options.json.empty()) return harness::exit_code(verdicts);
  if (Status written = write_expanded(options.json, results); !written.ok()) {
    return fail(streams, written.failure().message, kHarnessError);
  }
  using Handler = nlohmann::ordered_json::error_handler_t;
  // Last lines of a worker's log may be anything; a report is UTF-8.
  const std::string text =
      reports::report(results, setup.identity).dump(2, ' ', false, Handler::replace) + '\n';
  if (to_stdout) {
    streams.out << text << std::flush;
    if (!streams.out)
      return fail(streams, "cannot write the report to standard output", kHarnessError);
  } else if (Status written = reports::write_report(options.json, text); !written.ok()) {
    return fail(streams, written.failure().message, kHarnessError);
  }
  return harness::exit_code(verdicts);
}

}  // namespace

int run_command(const RunOptions& options, const Setup& setup, const Streams& streams) {
  const StopSignals signals;  // from here on a signal ends the run in order, whatever it is at
  const auto files = expand_paths(options.paths, options.filter);
  if (files.empty()) {
    const std::string which = options.filter.empty() ? "" : " that matches " + options.filter;
    return fail(streams,
                fmt::format("no scenario file{}, expected *.toml in {}", which,
                            fmt::join(options.paths, ", ")),
                kBadInput);
  }
  const auto scenarios = load_all(files, options.overrides, setup.catalogue, streams.err);
  if (!scenarios) return kBadInput;
  const std::string refused = refuse_world(*scenarios, options);
  if (!refused.empty()) return fail(streams, refused, kBadInput);
  const auto cases = expand_cases(*scenarios, options, setup.catalogue, draw_seed);
  const std::string silent = refuse_silence(cases);
  if (!silent.empty()) return fail(streams, silent, kBadInput);
  if (options.list) {
    list_cases(cases, streams.out);
    return 0;
  }
  if (!options.json.empty() && options.json != "-") {
    const Status writable = reports::check_writable(options.json);
    if (!writable.ok()) return fail(streams, writable.failure().message, kHarnessError);
  }
  const int code = tell(run_all(cases, options, setup, streams, signals), options, setup, streams);
  const int signal = signals.pending();
  return signal == 0 ? code : kSignalled + signal;
}

}  // namespace rehearse::cli
