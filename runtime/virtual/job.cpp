#include "runtime/virtual/job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/virtual/worker.hpp"
#include "runtime/world/task_failure.hpp"

namespace rehearse::virtual_world {
namespace {

constexpr int kUnwindTriesMax = 8;
constexpr std::size_t kNotesOfWaitingMax = 16;
constexpr std::size_t kWaitingInNoteMax = 32;

std::string line_of(const WaitingTask& task) {
  const std::string whom = task.whom.empty() ? "" : " from " + task.whom;
  const std::string until = task.deadline == kNever
                                ? "without a deadline"
                                : "until " + format_duration(task.deadline.time_since_epoch());
  return fmt::format("{} {} waits for {}{} since {} {}", task.worker, task.task, task.what, whom,
                     format_duration(task.since.time_since_epoch()), until);
}

}  // namespace

Job::Job(Physics& physics, JobOptions options)
    : physics_(physics),
      options_(std::move(options)),
      scheduler_(*this, {options_.stack_bytes, options_.quiet}),
      network_(scheduler_, physics_, agenda_),
      record_({options_.keep_events ? RecordOptions::Keep::all : RecordOptions::Keep::nothing}) {
  scheduler_.on_failure = [this](fiber::GroupId group, const std::string& task,
                                 std::exception_ptr error) { task_failed(group, task, error); };
}

Job::~Job() = default;

Address Job::add(std::string name, HostId host, Body body) {
  WorkerSpec spec;
  spec.rank = static_cast<int>(workers_.size());
  spec.address = {options_.job, 0, static_cast<std::uint16_t>(spec.rank), 0, 1};
  spec.local_rank = workers_on_[host]++;
  spec.seed = options_.seed;
  spec.name = name;
  const bool fresh = names_.emplace(std::move(name), spec.address).second;
  REHEARSE_CHECK(fresh, fmt::format("two workers are named {}", spec.name));
  const Address address = spec.address;
  workers_.push_back(std::make_unique<Worker>(*this, std::move(spec), host, std::move(body)));
  return address;
}

void Job::start_workers() {
  const int count = static_cast<int>(workers_.size());
  faults_ = std::make_unique<FaultEngine>(options_.faults, options_.seed, count);
  arm_time_faults();
  for (auto& worker : workers_) worker->start(count);
}

void Job::arm_time_faults() {
  for (const FaultSpec& fault : options_.faults) {
    if (fault.when.anchor != FaultTrigger::Anchor::time) continue;
    agenda_.call(fault.when.time, [this] {
      for (const Firing& firing : faults_->on_time(now())) carry_out(firing, nullptr);
    });
  }
}

RunOutcome Job::run() {
  REHEARSE_CHECK(!faults_, "a job runs once");
  start_workers();
  set_check_context([](void* self) { return static_cast<Job*>(self)->where(); }, this);
  const fiber::End end = scheduler_.run();
  RunOutcome outcome = outcome_of(end);
  for (auto& worker : workers_) worker->go_inert();
  outcome.counters["tasks_abandoned"] = scheduler_.unwind(kUnwindTriesMax);
  set_check_context(nullptr, nullptr);
  return outcome;
}

std::string Job::where() const {
  const std::string time = format_duration(agenda_.now().time_since_epoch());
  if (scheduler_.current() == TaskId{}) return fmt::format("outside any worker, at {}", time);
  const Worker& worker = *workers_[scheduler_.current_group()];
  return fmt::format("rank {}, generation {}, at {}", worker.spec().rank,
                     worker.spec().address.generation, time);
}

RunOutcome Job::outcome_of(fiber::End end) const {
  RunOutcome outcome;
  outcome.end = timed_out_                ? RunOutcome::End::timed_out
                : end == fiber::End::hung ? RunOutcome::End::hung
                                          : RunOutcome::End::done;
  outcome.world_end = agenda_.now();
  for (const auto& worker : workers_) outcome.workers.push_back(worker->outcome());
  outcome.faults = faults_->outcomes();
  if (outcome.end != RunOutcome::End::done) outcome.waiting = waiting();
  record_.fill(outcome);
  std::int64_t live = 0;
  for (const auto& worker : workers_) {
    const auto group = static_cast<fiber::GroupId>(worker->spec().rank);
    if (!scheduler_.closed(group)) live += static_cast<std::int64_t>(scheduler_.tasks_of(group));
  }
  outcome.counters["tasks_live"] = live;
  return outcome;
}

std::vector<WaitingTask> Job::waiting() const {
  std::vector<WaitingTask> result;
  for (const fiber::Waiting& wait : scheduler_.waiting()) {
    result.push_back({workers_[wait.group]->spec().name, wait.task, wait.duty,
                      std::string(wait.reason.what), wait.reason.whom, wait.since, wait.deadline});
  }
  return result;
}

Result<Bytes> Job::on_disk(std::string_view worker, std::string_view object) const {
  const auto found = names_.find(std::string(worker));
  if (found == names_.end()) {
    return Failure{Code::unknown_worker, fmt::format("no worker is named '{}'", worker), {}, 0};
  }
  return workers_[found->second.worker]->objects().get(object);
}

void Job::wait(Time next_timer) {
  const Time limit = std::min({next_timer, agenda_.next(), options_.time_limit});
  completions_.clear();
  // Without transfers physics has nothing to say: it learns the time with the next one.
  Time reached = limit;
  if (network_.transfers()) reached = physics_.next(limit, completions_);
  REHEARSE_CHECK(reached != kNever, "the world waits for nothing");
  agenda_.pass_to(std::max(reached, now()), network_);
  for (const Completion& completion : completions_) network_.completed(completion);
  if (out_of_time()) {
    timed_out_ = true;
    scheduler_.stop();
  }
}

bool Job::out_of_time() {
  constexpr std::uint32_t kWaitsBetweenQuestions = 256;  // the question may cost more than the wait
  if (now() >= options_.time_limit) return true;
  if (!options_.out_of_wall_time || ++waits_ % kWaitsBetweenQuestions != 0) return false;
  return options_.out_of_wall_time();
}

void Job::happened(Worker& worker, const StampedEvent& event) {
  if (event.event.kind == EventKind::deadline_fired) note_waiting(worker, event);
  if (!faults_->armed()) return;
  const Occurrence occurrence{worker.spec().rank, event.event, event.step, worker.phase_now()};
  for (const Firing& firing : faults_->on_event(occurrence, worker.now())) {
    carry_out(firing, &worker);
  }
}

// `at`: the worker whose task came to the place; it goes last, since its kill does not return.
void Job::carry_out(const Firing& firing, Worker* at) {
  if (firing.what == Firing::What::begins) return;  // the engine acts, once a message leaves
  Worker& witness = at ? *at : *workers_[firing.kills.empty() ? 0 : firing.kills.front()];
  witness.record({EventKind::fault_fired, 0, firing.fault, 0});
  if (at && at->now() > now()) {
    // Others are struck when the world has reached the time of who came to the place.
    agenda_.call(at->now(), [this, firing, at] { strike(firing, at); });
  } else {
    strike(firing, at);
  }
  if (!at) return;
  const auto self = std::find(firing.kills.begin(), firing.kills.end(), at->spec().rank);
  if (self != firing.kills.end()) at->kill(firing.seen_as, true);
}

void Job::strike(const Firing& firing, Worker* except) {
  for (int rank : firing.kills) {
    Worker& victim = *workers_[static_cast<std::size_t>(rank)];
    if (&victim != except) victim.kill(firing.seen_as, false);
  }
}

void Job::note_waiting(const Worker& worker, const StampedEvent& event) {
  if (record_.notes().size() >= kNotesOfWaitingMax) return;
  const auto tasks = waiting();
  std::string text = fmt::format("a deadline of {} fired at {}; waiting were:", worker.spec().name,
                                 format_duration(event.time.time_since_epoch()));
  for (std::size_t i = 0; i < std::min(tasks.size(), kWaitingInNoteMax); ++i) {
    text += "\n  " + line_of(tasks[i]);
  }
  if (tasks.size() > kWaitingInNoteMax) {
    text += fmt::format("\n  and {} more", tasks.size() - kWaitingInNoteMax);
  }
  record_.note(std::move(text));
}

void Job::task_failed(fiber::GroupId group, const std::string& task, std::exception_ptr error) {
  Worker& worker = *workers_[group];
  worker.fail(failure_of_task(worker.spec().name, task, error));
}

Result<Address> Job::look_up(std::string_view name) const {
  const auto found = names_.find(std::string(name));
  if (found != names_.end()) return found->second;
  return Failure{Code::timed_out, fmt::format("nobody has published '{}'", name), {}, 0};
}

Status Job::publish(std::string_view name, const Address& address) {
  const auto [at, fresh] = names_.emplace(std::string(name), address);
  if (!fresh && at->second != address) {
    return Failure{Code::bad_argument, fmt::format("the name '{}' is taken", name), {}, 0};
  }
  for (const Finder& finder : finders_) {
    if (finder.name == name) scheduler_.unpark(finder.task);
  }
  return {};
}

}  // namespace rehearse::virtual_world
