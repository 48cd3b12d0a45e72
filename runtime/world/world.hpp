#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/random.hpp"
#include "runtime/world/event.hpp"
#include "runtime/world/net.hpp"
#include "runtime/world/tasks.hpp"

namespace rehearse {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time now() const = 0;  ///< this worker's local time, charges included
  virtual void sleep_until(Time time) = 0;
};

class Compute {
 public:
  virtual ~Compute() = default;
  /// Says what was just computed: advances the worker's local time in virtual worlds, nothing
  /// elsewhere. Never switches.
  virtual void charge(const Cost& cost) = 0;
};

/// Whole objects by name. Waits; fails with `disk_full`, `not_found`, `disk_error`.
class Disk {
 public:
  virtual ~Disk() = default;
  /// Atomic, and durable on return: a crash leaves the old object or the new one.
  virtual Status put(std::string_view name, Bytes bytes) = 0;
  virtual Result<Bytes> get(std::string_view name) = 0;
  virtual Result<std::vector<std::string>> list(std::string_view prefix) = 0;
  virtual Status remove(std::string_view name) = 0;
};

struct ProcessSpec {
  std::string name;
  std::vector<std::string> command;  ///< empty: a function of this program
  std::string function;
  std::map<std::string, std::string> environment;
  std::string log_dir;
};
enum class Signal { terminate, kill, stop, resume, interrupt, quit, hangup, user1, user2 };

class Launcher {
 public:
  virtual ~Launcher() = default;
  /// Its exit and stops are told to `notify`, once each. Fails with `cannot_start` and the reason.
  virtual Result<ChildId> start(const ProcessSpec& spec, const Address& notify) = 0;
  virtual Status signal(ChildId child, Signal signal) = 0;  ///< to its whole process group
};

/// The only output of shared code. The log adds rank, generation, step, phase, task, Lamport stamp
/// and time. Its digest (64-bit, order and time included) is taken as events are appended.
///
/// Every event is also a place where a fault may strike: `append` may not return (the worker is
/// killed here, in the calling task).
class EventLog {
 public:
  virtual ~EventLog() = default;
  virtual void append(const Event& event) = 0;
  /// The worker is in `step` from now on; in `phase` ("forward", "backward", "optimizer", …).
  virtual void step(std::int64_t step) = 0;
  virtual void phase(std::string_view phase) = 0;
  virtual void journal(const JournalEntry& entry) = 0;
  virtual void note(std::string_view why) = 0;  ///< a sentence for people; in no digest
  /// Adds to a named counter of the run's report ("contexts_live", …); in no digest.
  virtual void count(std::string_view counter, std::int64_t amount) = 0;
  virtual std::uint64_t digest() const = 0;
};

/// What may strike at a probe.
struct Strike {
  enum class Kind { none, fail, delay, drop, duplicate, corrupt, flip } kind = Kind::none;
  Duration delay{};
  std::uint64_t detail = 0;
};

class Faults {
 public:
  virtual ~Faults() = default;
  /// A named place, beside the events, where a fault may strike. May not return.
  virtual Strike probe(std::string_view event, const Address* peer = nullptr) = 0;
  /// True if the unlikely, legal path is to be taken here. Always false outside virtual worlds.
  virtual bool rare(std::string_view place) = 0;
};

/// Default deadlines and bounds; one place, settable, shown by `explain`.
struct Limits {
  Duration call = std::chrono::seconds(60);
  Duration backward = std::chrono::seconds(600);
  Duration verdict = std::chrono::seconds(60);  ///< get_gradients of a pass that is not decided
  Duration find = std::chrono::seconds(60);
  Duration finish = std::chrono::seconds(600);  ///< waiting for the other workers' programs to end
  Duration linger = std::chrono::seconds(5);
  Duration stop_grace = std::chrono::seconds(30);
  Duration reconnect = std::chrono::seconds(1);
  std::size_t credit_bytes = std::size_t{256} << 20;  ///< per peer, taken by user tasks in calls
  int contexts_open = 4096;                ///< per worker; the constructor waits above it
  int executor_slice_nodes = 32;           ///< nodes run between two looks at the inbox
  int provenance_items = 64;               ///< items attached to a message at most, nearest first
  std::size_t provenance_words = 200'000;  ///< per worker and context; beyond it a pair is opaque
  bool journal_gradients = false;  ///< digests of gradients at each commit, for comparing runs
  bool journal_values = false;     ///< the gradients themselves beside them, where a bound asks
  int report_tree_above = 64;      ///< participants; above it reports go along a tree
};

/// How a worker is born. The same for `worker_main` in every world.
struct WorkerSpec {
  Address address;
  std::string name;  ///< "w3"
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  std::uint64_t seed = 0;  ///< of the job: the same on all workers
};

/// All that one worker sees of the outside.
struct World {
  Clock& clock;
  Net& net;
  Tasks& tasks;
  Launcher& launcher;
  Disk& disk;
  Compute& compute;
  EventLog& events;
  Faults& faults;
  const Limits& limits;
  const WorkerSpec& self;
};

}  // namespace rehearse
