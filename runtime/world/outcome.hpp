#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/time.hpp"
#include "runtime/fiber/task.hpp"
#include "runtime/world/event.hpp"

namespace rehearse {

/// One line of the wait-for graph.
struct WaitingTask {
  std::string worker;
  std::string task;
  Duty duty = Duty::foreground;
  std::string what;  ///< "reply to add"
  std::string whom;  ///< "w3", or empty
  Time since{};
  Time deadline = kNever;
};

struct WorkerOutcome {
  std::string name;
  int rank = 0;
  bool finished = false;                ///< its main task returned
  bool killed = false;                  ///< by a fault, or a signal
  std::optional<Failure> failure;       ///< an exception left a task, or it could not start
  int exit_code = 0;                    ///< processes only
  int signal = 0;                       ///< processes only
  std::string log;                      ///< processes only: path of its output
  std::vector<std::string> last_lines;  ///< processes only: the end of it, when it failed
  std::uint64_t digest = 0;             ///< of its own events
  std::optional<Time> ended;            ///< when it finished, failed or was killed, if known
};

struct FaultOutcome {
  std::uint64_t fired = 0;
  Time first_fired{};
};

/// What a run of a job came to, in any world.
struct RunOutcome {
  enum class End { done, hung, timed_out } end = End::done;
  Time world_end{};
  std::vector<WorkerOutcome> workers;
  std::vector<FaultOutcome> faults;              ///< in the order of the plan
  std::vector<JournalEntry> journal;             ///< of all workers, sorted
  std::vector<JournalEntry> final_parameters;    ///< of all workers, sorted
  std::vector<WaitingTask> waiting;              ///< when hung or timed out
  std::vector<std::string> notes;                ///< deadlines that fired, with who waited for whom
  std::map<std::string, std::int64_t> counters;  ///< messages, bytes, events, tasks_live, …
  /// Of results that must agree across worlds: final_parameters, …
  std::map<std::string, std::uint64_t> digests;
  std::uint64_t digest = 0;          ///< of the whole event log; virtual worlds only
  std::vector<StampedEvent> events;  ///< if asked for
  std::vector<std::string> phases;   ///< names behind `StampedEvent::phase`
};

}  // namespace rehearse
