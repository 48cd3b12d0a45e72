#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "harness/parse.hpp"
#include "harness/runner/apart.hpp"
#include "harness/runner/job_runner.hpp"
#include "harness/runner/job_text.hpp"
#include "harness/runner/perturb.hpp"
#include "runtime/real/process.hpp"
#include "runtime/worker/worker_main.hpp"

namespace rehearse::harness {
namespace {

constexpr int kHarnessError = 3;

template <class T>
T number(const std::string& text) {
  T value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// worker --job JSON --spec-fd N
int run_worker_command(const std::vector<std::string>& words, const Program& program) {
  if (words.size() != 5 || words[1] != "--job" || words[3] != "--spec-fd") {
    fmt::print(stderr, "worker: a launcher starts this command; people use `run`\n");
    return 2;
  }
  const JobSpec job = job_from(words[2]);
  return real::run_spawned_worker(number<int>(words[4]),
                                  [&](World& world) { worker_main(world, program, job); });
}

// replica FILE WORLD SEED [KEY=VALUE]... DESCRIPTOR
int run_replica_command(const std::vector<std::string>& words, const Program& program) {
  if (words.size() < 5) return 2;
  Case run;
  run.file = words[1];
  run.world = world_kind(words[2]).value_or(WorldKind::memory);
  run.seed = number<std::uint64_t>(words[3]);
  run.overrides.assign(words.begin() + 4, words.end() - 1);
  perturb_allocations(run.seed);
  auto parsed = load_scenario(run.file, run.overrides, catalogue_of(program));
  if (!parsed.scenario) return 2;
  run.scenario = std::move(*parsed.scenario);
  hand_over(JobRunner(program, {}).run_here(run, false, true), number<int>(words.back()));
  return 0;
}

}  // namespace

std::optional<int> run_hidden_command(int argc, char** argv, const Program& program) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) return std::nullopt;
  try {
    if (words[0] == "worker") return run_worker_command(words, program);
    if (words[0] == "replica") return run_replica_command(words, program);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", words[0], error.what());
    return kHarnessError;
  }
  return std::nullopt;
}

}  // namespace rehearse::harness
