#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/real/channel.hpp"
#include "runtime/real/control.hpp"
#include "runtime/real/socket.hpp"
#include "runtime/world/fault_plan.hpp"
#include "runtime/world/world.hpp"

namespace rehearse::real {

/// What a worker does: the same function in every world.
using Body = std::function<void(World&)>;

/// How this process becomes a worker.
struct ProcessOptions {
  WorkerSpec spec;
  Limits limits;
  std::vector<BookEntry> book;    ///< all workers
  std::vector<FaultSpec> faults;  ///< the whole plan of the run
  int listener = -1;              ///< listening socket, taken over
  int local_listener = -1;        ///< the same, for workers of this machine
  Transport transport = Transport::automatic;
  int control = -1;           ///< stream to the launcher, taken over; -1: none
  int counts = -1;            ///< `SharedCounts` of the faults, taken over; -1: none
  std::int64_t start_ns = 0;  ///< when the job began, on the system's monotonic clock
  std::string disk_directory;
  std::string events_path;  ///< empty: events are not kept
  bool spin = false;        ///< this worker has a core of its own
};

/// Runs `body` as the worker's main task, with this process as its world. Returns the exit status:
/// 0 once it has returned and what it sent has left (`Limits::linger` at most), 1 if an exception
/// left a task; the launcher has been told which.
int run_worker(const ProcessOptions& options, const Body& body);

/// The same, for a program that the launcher started: reads its options from `spec_fd`.
int run_spawned_worker(int spec_fd, const Body& body);

}  // namespace rehearse::real
