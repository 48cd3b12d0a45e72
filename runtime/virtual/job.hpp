#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/fiber/scheduler.hpp"
#include "runtime/virtual/agenda.hpp"
#include "runtime/virtual/network.hpp"
#include "runtime/virtual/physics.hpp"
#include "runtime/world/fault_engine.hpp"
#include "runtime/world/outcome.hpp"
#include "runtime/world/recorder.hpp"
#include "runtime/world/world.hpp"

namespace rehearse::virtual_world {

struct JobOptions {
  std::uint64_t seed = 0;
  std::uint64_t job = 1;
  Limits limits;
  std::vector<FaultSpec> faults;
  /// Hung when no foreground task has run for so long while one waits without a deadline.
  Duration quiet = std::chrono::seconds(60);
  Time time_limit = kNever;  ///< of world time: the run ends as `timed_out`
  /// Asked now and then when world time passes; true ends the run as `timed_out`.
  std::function<bool()> out_of_wall_time;
  bool keep_events = false;
  /// What the running task has computed since the last question; a worker is charged for it before
  /// it sends, waits or is asked for the time. Empty: only what the program charges itself.
  std::function<Cost()> measured;
  double rare = 0;  ///< how often `Faults::rare` says yes
  std::size_t stack_bytes = 256 << 10;
};

class Worker;

/// All workers of a job in this process, in virtual time. One run, then it is over.
class Job final : fiber::Driver {
 public:
  using Body = std::function<void(World&)>;

  Job(Physics& physics, JobOptions options = {});
  ~Job() override;

  /// A worker whose main task is `body`; it ends when `body` returns. Its rank is the number of
  /// workers added before; its endpoint is found under `name` from the start.
  /// REQUIRES: before `run`; no other worker has that name.
  Address add(std::string name, HostId host, Body body);

  /// Once. Afterwards what killed workers left has been unwound.
  RunOutcome run();

  /// What `worker` has put on its disk, after the run.
  Result<Bytes> on_disk(std::string_view worker, std::string_view object) const;

 private:
  friend class Worker;
  struct Finder {
    std::string name;
    TaskId task;
  };

  // Driver
  Time now() override { return agenda_.now(); }
  void wait(Time next_timer) override;
  bool silent() const override { return agenda_.empty() && !network_.transfers(); }

  /// Everything that a worker appends comes through here; may not return.
  void happened(Worker& worker, const StampedEvent& event);
  void carry_out(const Firing& firing, Worker* at);
  void strike(const Firing& firing, Worker* at);
  void note_waiting(const Worker& worker, const StampedEvent& event);
  void task_failed(fiber::GroupId group, const std::string& task, std::exception_ptr error);

  Result<Address> look_up(std::string_view name) const;
  Status publish(std::string_view name, const Address& address);

  void arm_time_faults();
  void start_workers();
  bool out_of_time();
  RunOutcome outcome_of(fiber::End end) const;
  std::vector<WaitingTask> waiting() const;
  std::string where() const;

  Physics& physics_;
  JobOptions options_;
  Agenda agenda_;
  fiber::Scheduler scheduler_;
  Network network_;
  RunRecord record_;
  std::unique_ptr<FaultEngine> faults_;
  std::vector<std::unique_ptr<Worker>> workers_;  // by rank, which is the slot and the group
  std::map<HostId, int> workers_on_;
  std::unordered_map<std::string, Address> names_;  // never iterated
  std::vector<Finder> finders_;
  std::vector<Completion> completions_;
  bool timed_out_ = false;
  std::uint32_t waits_ = 0;
};

}  // namespace rehearse::virtual_world
