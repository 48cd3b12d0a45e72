#pragma once

#include <functional>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/worker/program.hpp"
#include "runtime/worker/worker.hpp"
#include "runtime/world/fault_plan.hpp"
#include "runtime/world/outcome.hpp"

namespace rehearse::virtual_world {
class Physics;
}

/// Whole jobs through the public face, in every world.
namespace rehearse::programs {

/// Processes talk over TCP, or over shared memory.
enum class In { memory, sim, processes, processes_shm };
inline std::ostream& operator<<(std::ostream& out, In world) {
  constexpr std::string_view kNames[] = {"memory", "sim", "processes", "processes_shm"};
  return out << kNames[static_cast<int>(world)];
}
inline bool is_virtual(In world) { return world == In::memory || world == In::sim; }

/// The worlds that this build has.
std::vector<In> worlds();

/// How a job is run.
struct JobSetup {
  int workers = 2;
  std::uint64_t seed = 1;
  JobSpec job;  ///< its workload may be left out if the program has one
  std::vector<FaultSpec> faults;
  Limits limits;
  double rare = 0;  ///< virtual worlds: how often an unlikely, legal path is taken
  bool keep_events = false;
  Time time_limit = kNever;  ///< of world time; processes: at most 60 s anyway

  JobSetup() { limits.journal_gradients = true; }
  JobSetup(int of, std::uint64_t with_seed) : JobSetup() {
    workers = of;
    seed = with_seed;
  }
};

/// Runs the program in a world; in `sim` in a forked process of its own. The program is not copied:
/// what its functions capture is seen in `memory`, and lost with the process elsewhere.
RunOutcome run(In world, const Program& program, const JobSetup& setup);

/// In `memory`, with physics of the caller's.
RunOutcome run_under(virtual_world::Physics& physics, const Program& program,
                     const JobSetup& setup);

/// The oracle: the same program without messages, in this process. REQUIRES: no faults matter.
RunOutcome run_uncut(const Program& program, const JobSetup& setup);

/// What a worker tells the test, in every world.
void say(Worker& worker, std::string_view text);
/// In the order in which it was told.
std::vector<std::string> said(const RunOutcome& outcome);

/// Runs `body` and says "ok", or the code, worker and message of the Error that leaves it. A wait
/// that a kill ends is passed on.
std::string outcome_of(const std::function<void()>& body);

/// "w1 failed: …" and the like for everything that is not as in a run without faults: ends,
/// failures, and contexts, passes, futures and tasks that are left. Empty: all is well. `dead`:
/// ranks that a fault has killed on purpose.
std::string complaints(const RunOutcome& outcome, const std::set<int>& dead = {});

/// How many events of that kind a worker has, and with which message kind as subject.
std::int64_t count(const RunOutcome& outcome, int rank, EventKind kind);
std::int64_t count_sent(const RunOutcome& outcome, int rank, MessageKind message);

/// A kill of `rank`, at the `nth` event of that kind on it, or on entering a phase of step `step`.
FaultSpec kill_at_event(int rank, EventKind event, std::uint64_t nth);
FaultSpec kill_at_phase(int rank, std::int64_t step, std::string phase);
/// Every message takes up to `jitter` longer.
FaultSpec jitter(Duration most);
/// Messages of different pairs and lanes overtake each other by up to `most`.
FaultSpec reorder(Duration most);

}  // namespace rehearse::programs
