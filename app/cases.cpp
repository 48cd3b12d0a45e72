#include "app/cases.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rehearse::cli {
namespace {

using harness::Case;
using harness::WorldKind;

bool has_world(const harness::Scenario& scenario, WorldKind world) {
  return std::find(scenario.worlds.begin(), scenario.worlds.end(), world) != scenario.worlds.end();
}

std::string shell_quoted(const std::string& text) {
  constexpr std::string_view kHarmless =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  if (!text.empty() && text.find_first_not_of(kHarmless) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char letter : text)
    quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

}  // namespace

std::vector<Case> expand_cases(const std::vector<LoadedScenario>& files, const RunOptions& options,
                               const harness::Catalogue& catalogue,
                               const std::function<std::uint64_t()>& draw) {
  std::vector<Case> cases;
  for (const LoadedScenario& file : files) {
    const auto worlds = options.world ? std::vector{*options.world} : file.scenario.worlds;
    const harness::WorkloadInfo* workload = catalogue.find(file.scenario.job.workload);
    for (const WorldKind world : worlds) {
      for (int repeat = 1; repeat <= options.repeat; ++repeat) {
        Case run;
        run.scenario = file.scenario;
        run.file = file.file;
        run.overrides = options.overrides;
        run.world = world;
        run.seed = options.random_seed ? draw() : options.seed.value_or(file.scenario.seed);
        run.scenario.seed = run.seed;
        run.repeat = repeat;
        run.repeats = options.repeat;
        run.timeout = options.timeout.value_or(Duration::max());
        run.transport = options.transport;
        run.has_oracle = workload && workload->has_oracle;
        cases.push_back(std::move(run));
      }
    }
  }
  return cases;
}

std::string refuse_world(const std::vector<LoadedScenario>& files, const RunOptions& options) {
  if (!options.world || options.force) return {};
  for (const LoadedScenario& file : files) {
    if (has_world(file.scenario, *options.world)) continue;
    std::vector<std::string_view> names;
    for (const WorldKind world : file.scenario.worlds) names.push_back(harness::name(world));
    return fmt::format(
        "{}: does not name the world \"{}\", expected one of its worlds ({}), or "
        "--force",
        file.file, harness::name(*options.world), fmt::join(names, ", "));
  }
  return {};
}

std::string refuse_silence(const std::vector<Case>& cases) {
  for (const Case& run : cases) {
    if (run.world != WorldKind::processes) continue;
    for (const FaultSpec& fault : run.scenario.faults) {
      if (fault.seen_as != SeenAs::silent) continue;
      return fmt::format(
          "{}: fault \"{}\": `seen_as = \"silent\"` is not supported yet in processes, where the "
          "kernel "
          "tells peers at once; run it in sim or memory",
          run.file, fault.id);
    }
  }
  return {};
}

std::string reproduce_line(const Case& run, const RunOptions& options, const std::string& command) {
  std::string line = fmt::format("{} run {} --world {} --seed {}", command, shell_quoted(run.file),
                                 harness::name(run.world), run.seed);
  for (const std::string& argument : run.overrides) line += " --set " + shell_quoted(argument);
  if (options.check_determinism) line += " --check-determinism";
  if (!has_world(run.scenario, run.world)) line += " --force";
  if (!options.transport.empty()) line += " --transport " + options.transport;
  if (options.timeout) line += " --timeout " + format_duration(*options.timeout);
  return line;
}

}  // namespace rehearse::cli
