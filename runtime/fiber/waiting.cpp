// What a scheduler knows of a run that comes to a standstill, and of worlds that end.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/fiber/scheduler.hpp"
#include "runtime/fiber/task_record.hpp"

namespace rehearse::fiber {
namespace {

// Set only while `unwind` runs.
// tidy: mutable-static: a terminate handler takes no argument
thread_local Scheduler* unwinds_ = nullptr;

// A fiber that is destroyed unwinds its stack; an abandoned one must not.
void forget(boost::context::fiber&& fiber) {
  union Kept {
    boost::context::fiber fiber;
    explicit Kept(boost::context::fiber&& from) : fiber(std::move(from)) {}
    ~Kept() {}
  };
  Kept kept(std::move(fiber));
}

}  // namespace

Scheduler::~Scheduler() {
  for (auto& task : tasks_) {
    if (task->fiber) forget(std::move(task->fiber));
    if (task->caller) forget(std::move(task->caller));
  }
}

bool Scheduler::hung() {
  if (driver_.silent() && timers_.empty()) return true;
  if (options_.quiet == Duration::max()) return false;
  const Time now = driver_.now();
  if (std::exchange(foreground_ran_, false)) quiet_since_ = now;
  if (now - quiet_since_ < options_.quiet) return false;
  bool forever = false;
  for (const auto& task : tasks_) {
    if (task->state == Task::State::free || task->group->closed) continue;
    if (task->duty == Duty::background) continue;
    if (task->state == Task::State::ready) {  // but held back: it computes
      forever = false;
      break;
    }
    forever = forever || task->deadline == kNever;
  }
  quiet_since_ = now;
  return forever;
}

std::vector<Waiting> Scheduler::waiting() const {
  std::vector<Waiting> result;
  for (const auto& group : groups_) {
    if (group->closed) continue;
    for (const Task* task = group->oldest; task; task = task->younger) {
      if (task->state != Task::State::parked) continue;
      result.push_back(
          {group->id, task->name, task->duty, task->reason, task->since, task->deadline});
    }
  }
  return result;
}

bool Scheduler::closed(GroupId group) const { return groups_[group]->closed; }

std::size_t Scheduler::tasks_of(GroupId group) const { return groups_[group]->tasks; }

int Scheduler::drain(int tries_max) {
  Task& self = running("drain its group");
  Group& group = *self.group;
  if (unwinding_) return 0;
  self.drains = true;
  group.stopping = true;
  group.tries_max = tries_max;
  group.drainer = self.id;
  for (Task* task = group.oldest; task; task = task->younger) cancel(task->id);
  while (group.tasks > 1 + static_cast<std::size_t>(group.given_up)) {
    park_current(kNever, {"its other tasks to end", {}}, true);
    if (unwinding_) return 0;
  }
  return group.given_up;
}

void Scheduler::close(GroupId id) {
  Group& group = *groups_[id];
  if (group.closed) return;
  group.closed = true;
  foreground_tasks_ -= group.foreground;
  group.foreground = 0;
  group.held = {};
  timers_.clear(group);
  for (Task* task = group.oldest; task; task = task->younger) timers_.clear(*task);
  if (unwinding_ || !current_ || current_->group != &group) return;
  current_->state = Task::State::parked;
  switch_out(*current_);
}

// A task that swallows Cancelled would go on for ever.
void Scheduler::give_up(Task& task) {
  task.given_up = true;
  task.state = Task::State::parked;
  if (!unwinding_) {
    ++task.group->given_up;
    unpark(task.group->drainer);
  }
  before_switch(task.stack, own_stack_);
  task.caller = std::move(task.caller).resume();
  std::abort();
}

Wake Scheduler::inert_wait(Task& task) {
  if (++task.tries > unwind_tries_max_) give_up(task);
  if (std::uncaught_exceptions() == 0) throw Cancelled{};
  return Wake::timed_out;
}

// Cancelled was thrown where nothing may be thrown: in a destructor, at the place where a fault had
// struck. That stack cannot be unwound.
void Scheduler::give_up_at_terminate() {
  if (!unwinds_ || !unwinds_->current_) std::abort();
  unwinds_->give_up(*unwinds_->current_);
}

int Scheduler::unwind(int tries_max) {
  for (auto& group : groups_) close(group->id);
  unwinding_ = true;
  unwind_tries_max_ = tries_max;
  unwinds_ = this;
  const std::terminate_handler before = std::set_terminate(&give_up_at_terminate);
  int abandoned = 0;
  for (auto& group : groups_) {
    // Youngest first: what an older task's stack owns is what younger ones refer to.
    for (Task* task = group->youngest; task;) {
      Task* next = task->older;
      const TaskId id = task->id;
      if (!task->given_up) {
        task->tries = 0;
        resume(*task);
      }
      if (find(id)) ++abandoned;
      task = next;
    }
  }
  std::set_terminate(before);
  unwinds_ = nullptr;
  return abandoned;
}

}  // namespace rehearse::fiber
