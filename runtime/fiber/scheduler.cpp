#include "runtime/fiber/scheduler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/base/error.hpp"
#include "runtime/fiber/task_record.hpp"

namespace rehearse::fiber {
namespace {

constexpr unsigned kSlotBits = 24;
constexpr std::uint64_t kSlotMask = (std::uint64_t{1} << kSlotBits) - 1;

std::string sentence(const WaitReason& reason) {
  return reason.whom.empty() ? std::string(reason.what)
                             : fmt::format("{} from {}", reason.what, reason.whom);
}

}  // namespace

Scheduler::Scheduler(Driver& driver, const SchedulerOptions& options)
    : driver_(driver), options_(options), stacks_(options.stack_bytes) {
  note_own_stack(own_stack_);
}

GroupId Scheduler::new_group() {
  groups_.push_back(std::make_unique<Group>());
  groups_.back()->id = static_cast<GroupId>(groups_.size() - 1);
  groups_.back()->is_group = true;
  return groups_.back()->id;
}

void Scheduler::add_hook(GroupId group, SwitchHook& hook) {
  groups_[group]->hooks.push_back(&hook);
}

Task& Scheduler::take_slot() {
  if (free_slots_.empty()) {
    REHEARSE_CHECK(tasks_.size() <= kSlotMask, "more tasks at once than ids have room for");
    free_slots_.push_back(static_cast<std::uint32_t>(tasks_.size()));
    tasks_.push_back(std::make_unique<Task>());
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  Task& task = *tasks_[slot];
  task.id = {next_serial_++ << kSlotBits | slot};
  return task;
}

TaskId Scheduler::spawn(GroupId group, std::string name, Duty duty, std::function<void()> body) {
  if (unwinding_) return {};
  Task& task = take_slot();
  task.group = groups_[group].get();
  task.name = std::move(name);
  task.duty = duty;
  task.body = std::move(body);
  task.group->link(task);
  if (duty == Duty::foreground && !task.group->closed) {
    ++foreground_tasks_;
    ++task.group->foreground;
  }
  start_fiber(task);
  for (SwitchHook* hook : task.group->hooks) hook->spawned(current(), task.id);
  make_ready(task);
  return task.id;
}

void Scheduler::start_fiber(Task& task) {
  boost::context::stack_context stack = stacks_.take();
  task.stack = {nullptr, static_cast<char*>(stack.sp) - stack.size, stack.size, nullptr};
  begin_stack(task.stack);
  task.fiber = boost::context::fiber(
      std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack),
      PooledStacks{&stacks_}, [this, &task](boost::context::fiber&& caller) {
        after_switch(task.stack, own_stack_);
        task.caller = std::move(caller);
        run_body(task);
        before_switch(task.stack, own_stack_);
        return std::move(task.caller);
      });
}

void Scheduler::run_body(Task& task) {
  try {
    if (!unwinding_ && !task.group->stopping) task.body();
  } catch (const Cancelled&) {
  } catch (...) {
    if (!unwinding_) task.failure = std::current_exception();
  }
  task.body = nullptr;
  task.state = Task::State::ended;
}

Task* Scheduler::find(TaskId id) const {
  const std::uint64_t slot = id.value & kSlotMask;
  if (slot >= tasks_.size()) return nullptr;
  Task* task = tasks_[slot].get();
  return task->state != Task::State::free && task->id == id ? task : nullptr;
}

void Scheduler::prefetch(TaskId id) const {
  const std::uint64_t slot = id.value & kSlotMask;
  if (slot < tasks_.size()) __builtin_prefetch(tasks_[slot].get());
}

Task& Scheduler::running(const char* doing) const {
  REHEARSE_CHECK(current_, fmt::format("only a task can {}", doing));
  return *current_;
}

void Scheduler::begin_wait(const WaitReason& reason) {
  Task& task = running("wait");
  if (unwinding_) return;
  REHEARSE_CHECK(std::uncaught_exceptions() == 0,
                 fmt::format("task {} waits for {} in a destructor while an exception unwinds it",
                             task.name, sentence(reason)));
  if (!task.refusals.empty()) {
    throw Error(Code::wait_refused, fmt::format("task {} must not wait inside {}; it waited for {}",
                                                task.name, task.refusals.back(), sentence(reason)));
  }
  check_stop(task);
}

void Scheduler::check_stop(Task& task) {
  if (task.group->stopping && !task.drains) {
    if (++task.tries > task.group->tries_max) give_up(task);
    throw Cancelled{};
  }
  if (std::exchange(task.cancel_pending, false)) throw Cancelled{};
}

Wake Scheduler::park(Time deadline, WaitReason reason) {
  begin_wait(reason);
  return park_current(deadline, std::move(reason), false);
}

Wake Scheduler::park_shielded(Time deadline, WaitReason reason) {
  running("wait");
  return park_current(deadline, std::move(reason), true);
}

Wake Scheduler::park_current(Time deadline, WaitReason&& reason, bool shielded) {
  Task& task = *current_;
  if (unwinding_) return inert_wait(task);
  task.state = Task::State::parked;
  task.shielded = shielded;
  task.since = std::max(driver_.now(), task.group->held_until);
  task.deadline = deadline;
  task.reason = std::move(reason);
  if (deadline != kNever) timers_.set(task, deadline);
  switch_out(task);
  if (!shielded && !unwinding_) check_stop(task);
  return task.wake;
}

void Scheduler::yield() {
  begin_wait({"its turn", {}});
  Task& task = *current_;
  if (unwinding_) {
    inert_wait(task);
    return;
  }
  task.yielded = true;
  make_ready(task);
  switch_out(task);
  if (!unwinding_) check_stop(task);
}

bool Scheduler::unpark(TaskId id) {
  Task* task = find(id);
  if (unwinding_ || !task || task->state != Task::State::parked || task->group->closed)
    return false;
  if (task->given_up) return false;
  wake(*task, Wake::unparked);
  return true;
}

void Scheduler::cancel(TaskId id) {
  Task* task = find(id);
  if (unwinding_ || !task || task->drains || task->group->closed || task->given_up) return;
  task->cancel_pending = true;
  if (task->state == Task::State::parked && !task->shielded) wake(*task, Wake::unparked);
}

Wake Scheduler::join(TaskId id, Time deadline) {
  begin_wait({"a task to end", {}});
  REHEARSE_CHECK(id != current(), "a task waits for its own end");
  const TaskId self = current();
  while (Task* task = find(id)) {
    task->joiners.push_back(self);
    const Wake wake = park_current(deadline, {"a task to end", task->name}, false);
    if (Task* still = find(id)) std::erase(still->joiners, self);
    if (wake == Wake::timed_out) return find(id) ? Wake::timed_out : Wake::unparked;
  }
  return Wake::unparked;
}

void Scheduler::refuse_waits(const char* place) {
  running("refuse waits").refusals.push_back(place);
}

void Scheduler::allow_waits() { running("allow waits").refusals.pop_back(); }

void Scheduler::wake(Task& task, Wake why) {
  timers_.clear(task);
  task.wake = why;
  task.yielded = false;
  make_ready(task);
}

void Scheduler::make_ready(Task& task) {
  task.state = Task::State::ready;
  if (task.group->closed) return;
  if (task.group->held_until > driver_.now()) {
    hold_back(task);
  } else {
    (task.yielded ? yielded_ : woken_).push(task);
  }
}

void Scheduler::hold_back(Task& task) {
  Group& group = *task.group;
  group.held.push(task);
  if (group.heap_place == Timed::kNowhere) timers_.set(group, group.held_until);
}

void Scheduler::hold(GroupId id, Time until) {
  Group& group = *groups_[id];
  group.held_until = std::max(group.held_until, until);
}

Time Scheduler::held_until(GroupId id) const { return groups_[id]->held_until; }

void Scheduler::resume(Task& task) {
  current_ = &task;
  task.state = Task::State::running;
  foreground_ran_ = foreground_ran_ || task.duty == Duty::foreground;
  for (SwitchHook* hook : task.group->hooks) hook->resumed(task.id);
  ExceptionState& exceptions = exception_state();
  std::swap(exceptions, task.exceptions);
  before_switch(own_stack_, task.stack);
  task.fiber = std::move(task.fiber).resume();
  after_switch(own_stack_, task.stack);
  std::swap(exceptions, task.exceptions);
  for (SwitchHook* hook : task.group->hooks) hook->suspended(task.id);
  current_ = nullptr;
  if (task.state == Task::State::ended) retire(task);
}

void Scheduler::switch_out(Task& task) {
  task.stopped = __builtin_frame_address(0);
  before_switch(task.stack, own_stack_);
  task.caller = std::move(task.caller).resume();
  after_switch(task.stack, own_stack_);
  // Thrown from a destructor it would end the process: there, what follows is inert anyway.
  if (unwinding_ && std::uncaught_exceptions() == 0) throw Cancelled{};
}

void Scheduler::retire(Task& task) {
  Group& group = *task.group;
  for (SwitchHook* hook : group.hooks) hook->finished(task.id);
  if (task.duty == Duty::foreground && !group.closed) {
    --foreground_tasks_;
    --group.foreground;
  }
  group.unlink(task);
  end_stack(task.stack);
  const std::exception_ptr failure = std::exchange(task.failure, nullptr);
  const std::string name = std::move(task.name);
  const auto joiners = std::exchange(task.joiners, {});
  free_slots_.push_back(static_cast<std::uint32_t>(task.id.value & kSlotMask));
  task.state = Task::State::free;
  task.yielded = task.shielded = task.cancel_pending = task.drains = task.given_up = false;
  task.tries = 0;
  task.refusals.clear();
  for (TaskId joiner : joiners) unpark(joiner);
  if (group.stopping) unpark(group.drainer);
  if (failure && on_failure) on_failure(group.id, name, failure);
}

// The records and stacks of thousands of tasks are in no cache when their turn comes.
void Scheduler::fetch_ahead(const TaskQueue& queue) {
  constexpr std::ptrdiff_t kLine = 64;
  const Task* next = queue.first->next;
  if (!next) return;
  __builtin_prefetch(next->group);
  const auto* frames = static_cast<const char*>(next->stopped);
  for (int line = -2; frames && line < 6; ++line) __builtin_prefetch(frames + line * kLine);
  const auto* after_next = reinterpret_cast<const char*>(next->next);
  for (int line = 0; after_next && line < 4; ++line) __builtin_prefetch(after_next + line * kLine);
}

void Scheduler::run_one(TaskQueue& queue) {
  Task& task = *queue.pop();
  if (task.group->closed) return;
  if (task.group->held_until > driver_.now()) {
    hold_back(task);
  } else {
    resume(task);
  }
}

void Scheduler::run_turn() {
  for (std::size_t left = woken_.size; left > 0 && !stopped_; --left) {
    fetch_ahead(woken_);
    run_one(woken_);
  }
  driver_.poll();
  fire_timers(driver_.now());
  if (woken_.size == 0 && yielded_.size > 0) run_one(yielded_);
}

void Scheduler::fire_timers(Time now) {
  while (timers_.next() <= now && !timers_.empty()) {
    Timed& first = timers_.take_first();
    if (!first.is_group) {
      wake(static_cast<Task&>(first), Wake::timed_out);
      continue;
    }
    Group& group = static_cast<Group&>(first);
    for (std::size_t left = group.held.size; left > 0; --left) make_ready(*group.held.pop());
  }
}

End Scheduler::run() {
  while (!stopped_) {
    if (foreground_tasks_ == 0) return End::done;
    if (woken_.size + yielded_.size > 0) {
      run_turn();
      continue;
    }
    if (hung()) return End::hung;
    driver_.wait(std::min(timers_.next(), after(quiet_since_, options_.quiet)));
    fire_timers(driver_.now());
  }
  return End::stopped;
}

TaskId Scheduler::current() const { return current_ ? current_->id : TaskId{}; }

GroupId Scheduler::current_group() const { return running("have a group").group->id; }

}  // namespace rehearse::fiber
