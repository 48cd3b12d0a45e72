#include "tests/programs/job_fixture.hpp"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>

#include "harness/runner/apart.hpp"
#include "runtime/real/launcher.hpp"
#include "runtime/real/run_directory.hpp"
#include "runtime/virtual/constant_physics.hpp"
#include "runtime/virtual/job.hpp"
#include "runtime/worker/worker_main.hpp"
#ifdef REHEARSE_HAS_SIMGRID
#include "sim/run.hpp"
#endif

namespace rehearse::programs {
namespace {

constexpr std::string_view kMark = "said: ";
constexpr Duration kProcessesTimeLimit = std::chrono::seconds(60);
constexpr Duration kApartTimeLimit = std::chrono::seconds(240);

JobSpec job_of(const Program& program, const JobSetup& setup) {
  JobSpec job = setup.job;
  if (job.workload.empty()) job.workload = program.workloads().begin()->first;
  OptionValues values;
  for (const auto& option : program.find_workload(job.workload)->options()) {
    values[option.name] = option.default_value;
  }
  for (const auto& [name, value] : setup.job.options.values()) values[name] = value;
  job.options = Options(std::move(values));
  return job;
}

RunOutcome run_on(virtual_world::Physics& physics, const Program& program, const JobSetup& setup,
                  bool uncut) {
  virtual_world::JobOptions options;
  options.seed = setup.seed;
  options.limits = setup.limits;
  options.faults = setup.faults;
  options.rare = setup.rare;
  options.keep_events = setup.keep_events;
  options.time_limit = setup.time_limit;
  const JobSpec job = job_of(program, setup);
  const auto together = uncut ? make_uncut_run() : nullptr;
  virtual_world::Job world(physics, std::move(options));
  for (int rank = 0; rank < setup.workers; ++rank) {
    world.add(fmt::format("w{}", rank), static_cast<virtual_world::HostId>(rank),
              [&](World& at) { worker_main(at, program, job, together.get()); });
  }
  return world.run();
}

RunOutcome run_under_constant_physics(const Program& program, const JobSetup& setup, bool uncut) {
  virtual_world::ConstantPhysics physics;
  return run_on(physics, program, setup, uncut);
}

RunOutcome run_under_simgrid(const Program& program, const JobSetup& setup) {
  RunOutcome outcome;
#ifdef REHEARSE_HAS_SIMGRID
  sim::ClusterSpec cluster;
  cluster.hosts = setup.workers;
  sim::run_under_simgrid(cluster, [&](virtual_world::Physics& physics) {
    outcome = run_on(physics, program, setup, false);
  });
#else
  (void)program;
  (void)setup;
#endif
  return outcome;
}

RunOutcome run_in_processes(const Program& program, const JobSetup& setup,
                            real::Transport transport) {
  const real::RunDirectory directory;
  const JobSpec job = job_of(program, setup);
  real::LocalJobOptions options;
  options.body = [&](World& at) { worker_main(at, program, job); };
  options.workers = setup.workers;
  options.workers_per_host = setup.workers;
  options.transport = transport;
  options.seed = setup.seed;
  options.limits = setup.limits;
  options.limits.stop_grace = std::chrono::seconds(1);
  options.faults = setup.faults;
  options.keep_events = setup.keep_events;
  options.time_limit = std::min(kProcessesTimeLimit, setup.time_limit.time_since_epoch());
  options.run_directory = directory.path();
  return real::run_local_job(options);
}

FaultSpec of_everyone(FaultKind kind, std::string id) {
  FaultSpec spec;
  spec.id = std::move(id);
  spec.kind = kind;
  return spec;  // from time zero on, for ever
}

FaultSpec kill(int rank) {
  FaultSpec spec;
  spec.id = "kill";
  spec.kind = FaultKind::kill;
  spec.who.kind = FaultTarget::Kind::ranks;
  spec.who.ranks = {rank};
  return spec;
}

}  // namespace

std::vector<In> worlds() {
#ifdef REHEARSE_HAS_SIMGRID
  return {In::memory, In::sim, In::processes, In::processes_shm};
#else
  return {In::memory, In::processes, In::processes_shm};
#endif
}

RunOutcome run(In world, const Program& program, const JobSetup& setup) {
  at::set_num_threads(1);  // as `Program::main`: a forked process has none of torch's threads
  switch (world) {
    case In::memory:
      return run_under_constant_physics(program, setup, false);
    case In::sim:
      return harness::run_apart({[&] { return run_under_simgrid(program, setup); }, {}},
                                kApartTimeLimit)
          .or_throw();
    case In::processes:
      return run_in_processes(program, setup, real::Transport::tcp);
    case In::processes_shm:
      return run_in_processes(program, setup, real::Transport::shm);
  }
  return {};
}

RunOutcome run_under(virtual_world::Physics& physics, const Program& program,
                     const JobSetup& setup) {
  return run_on(physics, program, setup, false);
}

RunOutcome run_uncut(const Program& program, const JobSetup& setup) {
  JobSetup quiet = setup;
  quiet.faults.clear();
  return run_under_constant_physics(program, quiet, true);
}

void say(Worker& worker, std::string_view text) {
  worker.world().events.note(std::string(kMark) + std::string(text));
}

std::vector<std::string> said(const RunOutcome& outcome) {
  std::vector<std::string> texts;
  for (const auto& note : outcome.notes) {
    if (const auto at = note.find(kMark); at != std::string::npos)
      texts.push_back(note.substr(at + kMark.size()));
  }
  return texts;
}

std::string outcome_of(const std::function<void()>& body) {
  try {
    body();
    return "ok";
  } catch (const Error& error) {
    return fmt::format("{} {}: {}", name(error.code()),
                       error.worker().empty() ? "-" : error.worker(), error.message());
  } catch (const std::exception& error) {
    return fmt::format("no Error: {}", error.what());
  }
}

std::string complaints(const RunOutcome& outcome, const std::set<int>& dead) {
  std::string text;
  if (outcome.end != RunOutcome::End::done) text += "the run did not end by itself\n";
  for (const auto& worker : outcome.workers) {
    if (dead.contains(worker.rank) && worker.killed) continue;
    if (worker.failure)
      text += fmt::format("{} failed: {}\n", worker.name, worker.failure->message);
    if (worker.killed) text += fmt::format("{} was killed\n", worker.name);
    if (!worker.finished) text += fmt::format("{} did not finish\n", worker.name);
  }
  for (const std::string counter : {"contexts_live", "passes_live", "futures_live", "values_live",
                                    "references_live", "tasks_live", "tasks_abandoned"}) {
    // A kill in a destructor cannot unwind the task.
    if (counter == "tasks_abandoned" && !dead.empty()) continue;
    const auto found = outcome.counters.find(counter);
    if (found != outcome.counters.end() && found->second != 0) {
      text += fmt::format("{} is {}\n", counter, found->second);
    }
  }
  return text;
}

std::int64_t count(const RunOutcome& outcome, int rank, EventKind kind) {
  return std::ranges::count_if(outcome.events, [&](const StampedEvent& event) {
    return event.rank == rank && event.event.kind == kind;
  });
}

std::int64_t count_sent(const RunOutcome& outcome, int rank, MessageKind message) {
  return std::ranges::count_if(outcome.events, [&](const StampedEvent& event) {
    return event.rank == rank && event.event.kind == EventKind::sent &&
           event.event.subject == static_cast<std::uint64_t>(message);
  });
}

FaultSpec kill_at_event(int rank, EventKind event, std::uint64_t nth) {
  FaultSpec spec = kill(rank);
  spec.when.anchor = FaultTrigger::Anchor::event;
  spec.when.event = event;
  spec.when.nth = nth;
  return spec;
}

FaultSpec kill_at_phase(int rank, std::int64_t step, std::string phase) {
  FaultSpec spec = kill(rank);
  spec.when.anchor = FaultTrigger::Anchor::step;
  spec.when.step = step;
  spec.when.phase = std::move(phase);
  return spec;
}

FaultSpec jitter(Duration most) {
  FaultSpec spec = of_everyone(FaultKind::delay, "jitter");
  spec.jitter = most;
  return spec;
}

FaultSpec reorder(Duration most) {
  FaultSpec spec = of_everyone(FaultKind::reorder, "reorder");
  spec.by = most;
  return spec;
}

}  // namespace rehearse::programs
