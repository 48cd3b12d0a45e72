#include "runtime/real/process.hpp"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

#include "runtime/fiber/scheduler.hpp"
#include "runtime/real/file_disk.hpp"
#include "runtime/real/offload.hpp"
#include "runtime/real/poller.hpp"
#include "runtime/real/process_net.hpp"
#include "runtime/real/process_spec.hpp"
#include "runtime/real/worker_log.hpp"
#include "runtime/world/task_failure.hpp"

namespace rehearse::real {
namespace {

constexpr Duration kSpinFor = std::chrono::microseconds(50);
// How often what has arrived is looked at while tasks are ready.
constexpr Duration kPollEvery = std::chrono::microseconds(20);
constexpr Duration kLingerStep = std::chrono::milliseconds(1);
// While spinning, how often shared memory is looked at between two looks at sockets.
constexpr int kLooksAPoll = 64;
constexpr int kCancelTriesMax = 3;

// One task at a time, on the scheduler of this process.
class ProcessTasks final : public Tasks {
 public:
  ProcessTasks(fiber::Scheduler& scheduler, fiber::GroupId group, Offload& offload)
      : scheduler_(scheduler), group_(group), offload_(offload) {}

  TaskId spawn(std::string name, Duty duty, std::function<void()> body) override {
    return scheduler_.spawn(group_, std::move(name), duty, std::move(body));
  }
  TaskId current() const override { return scheduler_.current(); }
  Wake park(Time deadline, WaitReason reason) override {
    return scheduler_.park(deadline, std::move(reason));
  }
  bool unpark(TaskId task) override { return scheduler_.unpark(task); }
  void yield() override { scheduler_.yield(); }
  void cancel(TaskId task) override { scheduler_.cancel(task); }
  Wake join(TaskId task, Time deadline) override { return scheduler_.join(task, deadline); }
  void offload(const Cost&, std::function<void()> work) override { offload_.run(work); }
  void add_hook(SwitchHook& hook) override { scheduler_.add_hook(group_, hook); }
  void refuse_waits(const char* place) override { scheduler_.refuse_waits(place); }
  void allow_waits() override { scheduler_.allow_waits(); }

 private:
  fiber::Scheduler& scheduler_;
  fiber::GroupId group_;
  Offload& offload_;
};

// One process as a world: one worker, one thread, one scheduler, one poller.
class Process final : public fiber::Driver,
                      public Clock,
                      public Compute,
                      public Launcher,
                      public Watcher {
 public:
  explicit Process(const ProcessOptions& options)
      : options_(options),
        scheduler_(*this),
        group_(scheduler_.new_group()),
        offload_(scheduler_, poller_),
        tasks_(std::make_unique<ProcessTasks>(scheduler_, group_, offload_)),
        disk_(options.disk_directory, offload_),
        spin_(options.spin) {
    if (options.control >= 0) {
      control_ = std::make_unique<ControlStream>(Descriptor(options.control));
      poller_.add(control_->descriptor(), *this);
      control_->send(StartedRecord{});
    }
    log_ = std::make_unique<WorkerLog>(options.spec, options.faults, options.spec.world_size,
                                       options.counts, options.events_path, *this, control_.get());
    net_ = std::make_unique<ProcessNet>(
        ProcessNetOptions{options.spec.address, options.spec.name, options.listener,
                          options.local_listener, options.transport, own_place(), options.book,
                          options.limits},
        scheduler_, *this, poller_, *log_);
    scheduler_.on_failure = [this](fiber::GroupId, const std::string& task,
                                   std::exception_ptr error) { task_failed(task, error); };
    set_check_context(&Process::describe, this);
  }
  ~Process() override {
    set_check_context(nullptr, nullptr);
    if (control_) poller_.remove(control_->descriptor(), *this);
  }

  int run(const Body& body) {
    scheduler_.spawn(group_, "main", Duty::foreground, [this, &body] { main_task(body); });
    scheduler_.run();
    const int abandoned = scheduler_.unwind(kCancelTriesMax);
    if (abandoned > 0) log_->count("tasks_abandoned", abandoned);
    tasks_.reset();  // what they kept may own endpoints
    linger();
    log_->finish();
    if (!failed_ && control_) control_->send(FinishedRecord{log_->digest()});
    return failed_ ? 1 : 0;
  }

 private:
  void main_task(const Body& body) {
    World world{*this, *net_, *tasks_, *this,           disk_,
                *this, *log_, *log_,   options_.limits, options_.spec};
    body(world);
    log_->append({EventKind::ended, 0, 0, 0});
    const int abandoned = scheduler_.drain(kCancelTriesMax);
    if (abandoned > 0) log_->count("tasks_abandoned", abandoned);
    scheduler_.stop();
  }

  void task_failed(const std::string& task, const std::exception_ptr& error) {
    if (std::exchange(failed_, true)) return;
    if (control_) {
      control_->send(FailedRecord{failure_of_task(options_.spec.name, task, error)});
    }
    log_->append({EventKind::task_failed, 0, 0, 0});
    scheduler_.stop();
  }

  // A failed worker ends like one that was killed: without a farewell.
  void linger() {
    if (!failed_) net_->close_all();
    const Time until = after(time_now(), failed_ ? Duration::zero() : options_.limits.linger);
    net_->turn();
    while (!net_->finished() && time_now() < until) wait(time_now() + kLingerStep);
  }

  Place own_place() const {
    for (const BookEntry& entry : options_.book) {
      if (entry.address == options_.spec.address) return entry.place;
    }
    return {};
  }

  // Clock and Driver
  Time time_now() const {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return Time(std::chrono::seconds(time.tv_sec) +
                std::chrono::nanoseconds(time.tv_nsec - options_.start_ns));
  }
  Time now() const override { return time_now(); }
  Time now() override { return time_now(); }
  void sleep_until(Time time) override {
    scheduler_.begin_wait({"time", {}});
    while (time_now() < time) scheduler_.park(time, {"time", {}});
  }
  bool silent() const override { return false; }

  void poll() override {
    net_->look();
    const Time time = time_now();
    if (time < next_poll_) return;
    net_->turn();
    poller_.poll(Duration::zero());
    next_poll_ = time_now() + kPollEvery;
  }

  void wait(Time next_timer) override {
    net_->turn();
    const Time until = std::min(next_timer, net_->next_timer());
    const Time time = time_now();
    const bool quiet = until > time && !spin(std::min(until, time + kSpinFor));
    if (quiet) sleep(until);
    if (until <= time) poller_.poll(Duration::zero());
    net_->turn();
    next_poll_ = time_now() + kPollEvery;
  }

  void sleep(Time until) {
    if (net_->sleep()) poller_.poll(until == kNever ? Duration::max() : until - time_now());
    net_->wake();
    net_->look();
  }

  // True if something came.
  bool spin(Time until) {
    if (!spin_.try_now()) return false;
    bool found = false;
    do {
      for (int i = 0; i < kLooksAPoll && !found; ++i) found = net_->look();
      found = found || poller_.poll(Duration::zero()) > 0;
    } while (!found && time_now() < until);
    spin_.tried(found);
    return found;
  }

  // Compute: what was computed has taken its time already.
  void charge(const Cost&) override {}

  // Launcher: workers start no children before there are supervisors.
  Result<ChildId> start(const ProcessSpec&, const Address&) override {
    return Failure{Code::cannot_start, "a worker cannot start processes", {}, 0};
  }
  Status signal(ChildId, Signal) override {
    return Failure{Code::not_found, "no such child", {}, 0};
  }

  // From the launcher.
  void ready(std::uint32_t) override {
    const bool open = control_->receive();
    while (auto record = control_->next()) {
      std::visit([this](const auto& what) { handle(what); }, *record);
    }
    if (!open) poller_.remove(control_->descriptor(), *this);
  }
  template <class Other>
  void handle(const Other&) {}
  void handle(const DiedRecord& died) {
    log_->worker_gone(died.worker);
    net_->process_ended(died.worker, died.cause, died.detail);
  }
  void handle(const BookEntry& entry) { net_->learn(entry); }
  void handle(const FiredRecord& fired) { log_->happened_elsewhere(fired); }
  void handle(const AskWaitingRecord&) { control_->send(waiting()); }

  WaitingRecord waiting() const {
    WaitingRecord record;
    for (const fiber::Waiting& task : scheduler_.waiting()) {
      record.tasks.push_back({options_.spec.name, task.task, task.duty,
                              std::string(task.reason.what), task.reason.whom, task.since,
                              task.deadline});
    }
    return record;
  }

  static std::string describe(void* self) {
    const auto& process = *static_cast<Process*>(self);
    return fmt::format("rank {}, generation {}, at {}", process.options_.spec.rank,
                       process.options_.spec.address.generation,
                       format_duration(process.time_now().time_since_epoch()));
  }

  const ProcessOptions& options_;
  fiber::Scheduler scheduler_;
  fiber::GroupId group_;
  Poller poller_;
  Offload offload_;
  std::unique_ptr<ProcessTasks> tasks_;
  FileDisk disk_;
  SpinPolicy spin_;
  Time next_poll_{};
  bool failed_ = false;
  std::unique_ptr<ControlStream> control_;
  std::unique_ptr<WorkerLog> log_;
  std::unique_ptr<ProcessNet> net_;
};

}  // namespace

int run_worker(const ProcessOptions& options, const Body& body) {
  return Process(options).run(body);
}

int run_spawned_worker(int spec_fd, const Body& body) {
  const auto options = read_spec(spec_fd);
  if (!options.ok()) {
    fmt::print(stderr, "cannot start as a worker: {}\n", options.failure().message);
    return 1;
  }
  return run_worker(options.value(), body);
}

}  // namespace rehearse::real
