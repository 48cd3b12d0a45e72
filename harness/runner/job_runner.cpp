#include "harness/runner/job_runner.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "harness/runner/apart.hpp"
#include "harness/runner/job_text.hpp"
#include "harness/runner/torch_cost.hpp"
#include "harness/runner/wall_time.hpp"
#include "harness/verdict.hpp"
#include "runtime/real/launcher.hpp"
#include "runtime/real/run_directory.hpp"
#include "runtime/virtual/constant_physics.hpp"
#include "runtime/virtual/huge_heap.hpp"
#include "runtime/virtual/job.hpp"
#include "runtime/worker/worker_main.hpp"
#ifdef REHEARSE_HAS_SIMGRID
#include "sim/run.hpp"
#endif

namespace rehearse::harness {
namespace {

// Longest a job of processes may take where nobody says: a hang is a failure, not a wait.
constexpr Duration kProcessesTimeLimit = std::chrono::seconds(300);
// A run in virtual time ends by itself when its wall time is up, and says who waits for whom. One
// that computes on and on is ended from outside, so much later.
constexpr Duration kTimeToSayWhy = std::chrono::seconds(1);

bool needs_values(const Closeness& closeness) {
  return closeness.kind == Closeness::Kind::max_ulp || closeness.kind == Closeness::Kind::relative;
}

Limits limits_of(const Case& run) {
  const Expect& expect = run.scenario.expect;
  Limits limits;
  limits.journal_gradients = true;
  limits.journal_values = needs_values(expect.gradients) ||
                          (expect.final_parameters && needs_values(*expect.final_parameters));
  // Above the sum of what a step may wait for: the end of a program is not what gives up first.
  limits.finish = std::chrono::hours(1);
  return limits;
}

virtual_world::ConstantPhysicsOptions constant_physics(const Cluster& cluster) {
  virtual_world::ConstantPhysicsOptions options;
  options.latency = cluster.link_latency;
  options.bandwidth_bytes_per_s = bytes_per_s(cluster.link_bits_per_s);
  options.speed_flops_per_s = cluster.host_flops_per_s;
  options.memory_bytes_per_s = bytes_per_s(cluster.memory_bits_per_s);
  return options;
}

RunOutcome run_job(const Case& run, const Program& program, virtual_world::Physics& physics,
                   bool uncut, bool keep_events) {
  virtual_world::JobOptions options;
  if (run.timeout != Duration::max()) {
    options.out_of_wall_time = [time = WallTime(run.timeout)] { return time.up(); };
  }
  options.seed = run.seed;
  options.limits = limits_of(run);
  if (!uncut) options.faults = run.scenario.faults;
  // There calls nest on one stack, to any depth; only what is used of it is ever there.
  constexpr std::size_t kUncutStackBytes = std::size_t{256} << 20;
  if (uncut) options.stack_bytes = kUncutStackBytes;
  options.keep_events = keep_events;
  TorchCost cost;
  if (!uncut) options.measured = [&cost] { return cost.take(); };
  const JobSpec job = job_of(run.scenario);
  const auto together = uncut ? make_uncut_run() : nullptr;
  virtual_world::Job world(physics, std::move(options));
  for (std::int64_t rank = 0; rank < run.scenario.cluster.workers(); ++rank) {
    const auto host =
        static_cast<virtual_world::HostId>(rank / run.scenario.cluster.workers_per_host);
    world.add(worker_name(rank), host,
              [&](World& at) { worker_main(at, program, job, together.get()); });
  }
  return world.run();
}

// Final parameters travel in the journal; they are no gradients.
void take_final_parameters(RunOutcome& outcome) {
  Hash64 hash;
  std::erase_if(outcome.journal, [&](const JournalEntry& line) {
    if (line.step != rehearse::kFinalParameters) return false;
    hash.add(line.owner).add(line.leaf).add(line.digest);
    outcome.digests[kFinalParameters] = hash.value();
    outcome.final_parameters.push_back(line);
    return true;
  });
}

CaseResult harness_error(const Case& run, const Failure& failure) {
  return without_run(run, Verdict::harness_error, failure.message);
}

CaseResult out_of_time(const Case& run, std::string_view which) {
  return without_run(run, Verdict::timed_out,
                     fmt::format("the wall time of {} was up before {} had ended",
                                 format_duration(run.timeout), which));
}

Duration with_grace(Duration left) { return left == Duration::max() ? left : left + kTimeToSayWhy; }

// The same case, with as much wall time as is left.
Case in(const WallTime& time, Case run) {
  run.timeout = time.left();
  return run;
}

}  // namespace

Catalogue catalogue_of(const Program& program) {
  Catalogue catalogue;
  for (const auto& [name, workload] : program.workloads()) {
    WorkloadInfo info;
    info.name = name;
    info.help = workload.help_text();
    info.options = workload.options();
    info.has_oracle = workload.has_oracle();
    info.min_workers = [&workload](const Options& values) {
      return workload.workers_needed(rehearse::Options(values));
    };
    info.refusal = [&workload](const Options& values) {
      return workload.refusal(rehearse::Options(values));
    };
    catalogue.add(std::move(info));
  }
  return catalogue;
}

std::optional<std::string> JobRunner::missing(WorldKind world) const {
#ifndef REHEARSE_HAS_SIMGRID
  if (world == WorldKind::sim) return "this program was built without SimGrid";
#endif
  (void)world;
  return std::nullopt;
}

RunOutcome JobRunner::run_here(const Case& run, bool uncut, bool keep_events) const {
  virtual_world::use_huge_pages_for_the_heap();
  RunOutcome outcome;
#ifdef REHEARSE_HAS_SIMGRID
  if (!uncut && run.world == WorldKind::sim) {
    sim::run_under_simgrid(sim_cluster(run.scenario.cluster), [&](virtual_world::Physics& physics) {
      outcome = run_job(run, program_, physics, uncut, keep_events);
    });
    take_final_parameters(outcome);
    return outcome;
  }
#endif
  virtual_world::ConstantPhysics physics(constant_physics(run.scenario.cluster));
  outcome = run_job(run, program_, physics, uncut, keep_events);
  take_final_parameters(outcome);
  return outcome;
}

Result<RunOutcome> JobRunner::run_apart_or_in_processes(const Case& run, bool keep_events) const {
  if (run.world != WorldKind::processes) {
    return run_apart({[&] { return run_here(run, false, keep_events); }, {}},
                     with_grace(run.timeout));
  }
  const real::RunDirectory directory;
  real::LocalJobOptions options;
  options.command = {executable_, "worker", "--job", to_text(job_of(run.scenario))};
  options.workers = static_cast<int>(run.scenario.cluster.workers());
  options.workers_per_host = static_cast<int>(run.scenario.cluster.workers_per_host);
  options.transport = real::transport_named(run.transport).value_or(real::Transport::automatic);
  options.seed = run.seed;
  options.limits = limits_of(run);
  options.faults = run.scenario.faults;
  options.time_limit = run.timeout == Duration::max() ? kProcessesTimeLimit : run.timeout;
  options.run_directory = directory.path();
  options.keep_events = keep_events;
  RunOutcome outcome = real::run_local_job(options);
  take_final_parameters(outcome);
  return outcome;
}

Result<RunOutcome> JobRunner::oracle_of(const Case& run) const {
  return run_apart({[&] { return run_here(run, true, false); }, {}}, with_grace(run.timeout));
}

CaseResult JobRunner::judged(const Case& run, const WallTime& time, RunOutcome outcome) const {
  Evidence evidence;
  evidence.outcome = std::move(outcome);
  if (run.has_oracle && evidence.outcome.end == RunOutcome::End::done) {
    auto oracle = oracle_of(in(time, run));
    if (!oracle.ok()) {
      // A program that ends its process ends its twin's too: the run itself says more.
      CaseResult result = judge(run, std::move(evidence));
      return result.verdict == Verdict::passed ? harness_error(run, oracle.failure()) : result;
    }
    evidence.oracle = std::move(oracle).value();
    if (evidence.oracle->end == RunOutcome::End::timed_out)
      return out_of_time(run, "its uncut twin");
  }
  return judge(run, std::move(evidence));
}

CaseResult JobRunner::run(const Case& run) {
  if (const auto why = missing(run.world)) return without_run(run, Verdict::skipped, *why);
  const WallTime time(run.timeout);
  auto outcome = run_apart_or_in_processes(run, false);
  if (!outcome.ok()) return harness_error(run, outcome.failure());
  return judged(run, time, std::move(outcome).value());
}

Result<RunOutcome> JobRunner::replica_of(const Case& run) const {
  std::vector<std::string> command{executable_, "replica", run.file, std::string(name(run.world)),
                                   std::to_string(run.seed)};
  command.insert(command.end(), run.overrides.begin(), run.overrides.end());
  return run_apart({{}, command}, run.timeout);
}

CaseResult JobRunner::run_twice(const Case& run) {
  if (const auto why = missing(run.world)) return without_run(run, Verdict::skipped, *why);
  const WallTime time(run.timeout);
  auto first = run_apart_or_in_processes(run, true);
  if (!first.ok()) return harness_error(run, first.failure());
  if (first.value().end == RunOutcome::End::timed_out)
    return judged(run, time, std::move(first).value());
  const Case again = in(time, run);
  auto second = run.world == WorldKind::processes ? run_apart_or_in_processes(again, true)
                                                  : replica_of(again);
  if (!second.ok()) return harness_error(run, second.failure());
  if (second.value().end == RunOutcome::End::timed_out) return out_of_time(run, "its second run");
  return judge_determinism(judged(run, time, std::move(first).value()), second.value());
}

}  // namespace rehearse::harness
