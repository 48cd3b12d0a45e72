#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/real/process.hpp"
#include "runtime/world/outcome.hpp"

namespace rehearse::real {

/// A job whose workers are processes of this machine.
struct LocalJobOptions {
  /// The program of a worker and its arguments; `--spec-fd N` is appended, and it calls
  /// `run_spawned_worker(N, body)`. Empty: `body` runs in a forked child.
  std::vector<std::string> command;
  Body body;
  int workers = 1;
  int workers_per_host = 1;
  Transport transport = Transport::automatic;
  std::vector<std::string> names;  ///< of the workers; empty: "w0", "w1", …
  std::uint64_t seed = 0;
  std::uint64_t job = 0;  ///< 0: drawn, so that no two jobs of a machine are one
  std::uint32_t generation = 0;
  Limits limits;
  std::vector<FaultSpec> faults;
  Duration time_limit = std::chrono::seconds(300);
  std::string run_directory;  ///< logs, disks and events of the workers; created if missing
  bool keep_events = false;
};

/// Files of worker `name` in the run directory.
std::string log_path(const std::string& run_directory, const std::string& name);
std::string disk_path(const std::string& run_directory, const std::string& name);
std::string events_path(const std::string& run_directory, const std::string& name);

/// Runs the job to its end and says what it came to. When it returns, no process and no socket of
/// it is left, whatever happened. On SIGINT and SIGTERM the workers are killed, then the signal is
/// raised again.
///
/// A worker that cannot start is a `cannot_start` failure of that worker; what makes the job
/// impossible (no directory, no port) is one of the first. At the time limit the workers are asked
/// whom they wait for, then end by TERM or, after `Limits::stop_grace`, KILL.
RunOutcome run_local_job(const LocalJobOptions& options);

}  // namespace rehearse::real
