#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/virtual/disk.hpp"
#include "runtime/virtual/job.hpp"

namespace rehearse::virtual_world {

/// One worker, and its side of the seam. Inert once it is killed or its job is over: then it sends,
/// stores and records nothing.
class Worker final : Clock, Net, Tasks, Launcher, Disk, Compute, EventLog, Faults {
 public:
  Worker(Job& job, WorkerSpec spec, HostId host, Job::Body body);

  const WorkerSpec& spec() const { return spec_; }
  const Objects& objects() const { return objects_; }
  Time now() const override;
  bool alive() const { return alive_; }
  std::string_view phase_now() const { return recorder_.current_phase(); }

  void start(int world_size);
  /// At this instant of the world. What it has sent up to its local time still leaves if it was
  /// itself that came to the place (`at_own_time`). Returns unless called by one of its tasks.
  void kill(SeenAs seen_as, bool at_own_time);
  void fail(Failure failure);
  /// Nothing that its tasks do counts any more.
  void go_inert() { alive_ = false; }
  void record(const Event& event) { recorder_.append(event, now()); }
  WorkerOutcome outcome() const;

 private:
  class VirtualEndpoint;
  friend class VirtualEndpoint;

  /// Charges the worker for what its task has computed when it stops.
  class Meter;
  friend class Meter;

  void run_main();
  void charge_measured();
  void finish();
  void end_with(const Event& event);
  void settle();
  void append_if_alive(const Event& event);
  void close_stations(LossCause cause, const std::string& detail, SeenAs seen_as);
  void close_later(LossCause cause, std::string detail, SeenAs seen_as);
  Status send(StationId from, const Address& to, Lane lane, Message message);
  Result<Envelope> receive(StationId self, const bool& closed, Time deadline);
  void note_received(const Arrived& arrived);

  // Clock
  void sleep_until(Time time) override;
  // Net
  Result<std::unique_ptr<Endpoint>> open(std::string_view name) override;
  Result<Address> find(std::string_view name, Time deadline) override;
  Status publish(std::string_view name, const Address& address) override;
  // Tasks
  TaskId spawn(std::string name, Duty duty, std::function<void()> body) override;
  TaskId current() const override { return job_.scheduler_.current(); }
  Wake park(Time deadline, WaitReason reason) override;
  bool unpark(TaskId task) override { return job_.scheduler_.unpark(task); }
  void yield() override { job_.scheduler_.yield(); }
  void cancel(TaskId task) override { job_.scheduler_.cancel(task); }
  Wake join(TaskId task, Time deadline) override { return job_.scheduler_.join(task, deadline); }
  void offload(const Cost& cost, std::function<void()> work) override;
  void add_hook(SwitchHook& hook) override { job_.scheduler_.add_hook(group_, hook); }
  void refuse_waits(const char* place) override { job_.scheduler_.refuse_waits(place); }
  void allow_waits() override { job_.scheduler_.allow_waits(); }
  // Launcher
  Result<ChildId> start(const ProcessSpec& spec, const Address& notify) override;
  Status signal(ChildId child, Signal signal) override;
  // Disk
  Status put(std::string_view object, Bytes bytes) override;
  Result<Bytes> get(std::string_view object) override;
  Result<std::vector<std::string>> list(std::string_view prefix) override;
  Status remove(std::string_view object) override;
  // Compute
  void charge(const Cost& cost) override;
  // EventLog
  void append(const Event& event) override { append_if_alive(event); }
  void step(std::int64_t step) override;
  void phase(std::string_view phase) override;
  void journal(const JournalEntry& entry) override;
  void note(std::string_view why) override;
  void count(std::string_view counter, std::int64_t amount) override;
  std::uint64_t digest() const override { return recorder_.digest(); }
  // Faults
  Strike probe(std::string_view event, const Address* peer) override;
  bool rare(std::string_view place) override;

  Job& job_;
  WorkerSpec spec_;
  HostId host_;
  Job::Body body_;
  fiber::GroupId group_;
  World world_;
  Recorder recorder_;
  Random random_;
  std::vector<StationId> stations_;
  bool own_endpoint_open_ = false;
  bool alive_ = true;
  Time local_time_{};
  Objects objects_;
  std::unique_ptr<SwitchHook> meter_;
  WorkerOutcome outcome_;
};

}  // namespace rehearse::virtual_world
