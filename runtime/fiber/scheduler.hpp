#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/fiber/sanitizers.hpp"
#include "runtime/fiber/stack_pool.hpp"
#include "runtime/fiber/task.hpp"
#include "runtime/fiber/timer_heap.hpp"

namespace rehearse::fiber {

/// What the world does while every task waits.
class Driver {
 public:
  virtual ~Driver() = default;
  virtual Time now() = 0;

  /// Blocks until something happened or `next_timer` has come, whichever is first.
  virtual void wait(Time next_timer) = 0;

  /// Takes in what has arrived, without blocking. Asked between turns while tasks are ready.
  virtual void poll() {}

  /// True if nothing is under way that could make a task ready: only timers are left. A real world
  /// never knows that.
  virtual bool silent() const = 0;
};

/// Tasks that live and die together: one worker's. A real process has one group, a virtual world
/// one per worker.
using GroupId = std::uint32_t;

/// One line of the wait-for graph.
struct Waiting {
  GroupId group = 0;
  std::string task;
  Duty duty = Duty::foreground;
  WaitReason reason;
  Time since{};
  Time deadline = kNever;
};

enum class End { done, hung, stopped };

struct SchedulerOptions {
  std::size_t stack_bytes = 256 << 10;
  /// A run is hung when no foreground task has run for so long while one waits without a deadline.
  /// `Duration::max()`: never (a real world cannot know).
  Duration quiet = Duration::max();
};

struct Task;
struct Group;

/// Tasks in the order in which they run; a task is in one queue at most.
struct TaskQueue {
  Task* first = nullptr;
  Task* last = nullptr;
  std::size_t size = 0;
  void push(Task& task);
  Task* pop();  ///< REQUIRES: not empty
};

/// Runs tasks one at a time on the calling thread. A task runs until it waits; nothing else can
/// interrupt it. Woken and new tasks run first come first served; a task that yielded runs when
/// none of those is left.
///
/// Everything here is called from the thread that calls `run`: from inside a task, from the driver,
/// or before and after the run.
class Scheduler {
 public:
  explicit Scheduler(Driver& driver, const SchedulerOptions& options = {});
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  GroupId new_group();
  /// Of this group's tasks; `hook` must outlive them.
  void add_hook(GroupId group, SwitchHook& hook);

  /// The new task runs after those that are ready now. An exception that leaves `body` goes to
  /// `on_failure`; `Cancelled` just ends the task. In a group that stops, `body` never runs.
  TaskId spawn(GroupId group, std::string name, Duty duty, std::function<void()> body);

  /// Stops the calling task until `unpark` or `deadline`. An `unpark` that came while the task ran
  /// is forgotten: look at the condition, then park, in a loop.
  /// Throws Cancelled, Error{wait_refused}.
  /// REQUIRES: called by a task, not by a destructor during unwinding (ends the process).
  Wake park(Time deadline, WaitReason reason);
  /// As `park`, but neither refused nor cancelled: for a wait whose end others depend on (work on a
  /// helper thread that uses the task's stack). A cancel takes effect at the next other wait.
  Wake park_shielded(Time deadline, WaitReason reason);
  /// Makes a parked task ready. False if it is not parked (it runs, is ready, or has ended).
  bool unpark(TaskId task);
  /// `task` will soon be unparked.
  void prefetch(TaskId task) const;
  /// Lets what is ready, and what `Driver::poll` finds, run first.
  void yield();
  /// Waits until `task` has ended.
  Wake join(TaskId task, Time deadline);
  /// Its next wait, or the present one, throws Cancelled. Ended tasks are ignored.
  void cancel(TaskId task);

  /// What every wait does first: throws Cancelled or Error{wait_refused}, ends the process in a
  /// destructor during unwinding. For calls that wait only sometimes, so that they always fail.
  void begin_wait(const WaitReason& reason);
  void refuse_waits(const char* place);
  void allow_waits();

  /// Nothing of `group` runs until the world's time is `until`, the running task's current slice
  /// excepted. A later `until` extends it.
  void hold(GroupId group, Time until);
  /// The time that `group` is held until; in the past if it is not held.
  Time held_until(GroupId group) const;

  /// Cancels every other task of the calling task's group, at each of its waits, until all have
  /// ended. A task that has been cancelled `tries_max` times is given up: returns how many.
  int drain(int tries_max);
  /// No task of `group` runs again before `unwind`. If the caller is one of them, it stops here.
  void close(GroupId group);
  bool closed(GroupId group) const;
  std::size_t tasks_of(GroupId group) const;

  /// Runs until every foreground task of an open group has ended, or nothing can happen any more
  /// (`hung`), or `stop` was called.
  End run();
  void stop() { stopped_ = true; }

  /// After the run: closes every group, then unwinds what is left by Cancelled thrown out of waits,
  /// at most `tries_max` times a task. The rest is abandoned; returns how many tasks those are.
  int unwind(int tries_max);

  TaskId current() const;
  /// REQUIRES: a task runs.
  GroupId current_group() const;
  /// True while the calling task is unwound after the run: all interfaces are inert for it.
  bool unwinding() const { return unwinding_; }
  /// Of open groups, background tasks too; by group, then by age.
  std::vector<Waiting> waiting() const;
  /// Timers that are set; for tests.
  std::size_t timers() const { return timers_.size(); }

  std::function<void(GroupId, const std::string& task, std::exception_ptr)> on_failure;

 private:
  Task* find(TaskId id) const;
  Task& take_slot();
  void start_fiber(Task& task);
  void run_body(Task& task);
  Wake park_current(Time deadline, WaitReason&& reason, bool shielded);
  Wake inert_wait(Task& task);
  void check_stop(Task& task);
  Task& running(const char* doing) const;
  void make_ready(Task& task);
  void wake(Task& task, Wake why);
  void hold_back(Task& task);
  void resume(Task& task);
  void switch_out(Task& task);
  void retire(Task& task);
  static void fetch_ahead(const TaskQueue& queue);
  void run_one(TaskQueue& queue);
  void run_turn();
  void fire_timers(Time now);
  bool hung();
  [[noreturn]] void give_up(Task& task);
  static void give_up_at_terminate();

  Driver& driver_;
  SchedulerOptions options_;
  StackPool stacks_;
  StackUse own_stack_;
  std::vector<std::unique_ptr<Task>> tasks_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::unique_ptr<Group>> groups_;
  TaskQueue woken_;
  TaskQueue yielded_;
  TimerHeap timers_;
  std::uint64_t next_serial_ = 1;
  std::size_t foreground_tasks_ = 0;
  bool foreground_ran_ = true;
  Time quiet_since_{};
  bool stopped_ = false;
  bool unwinding_ = false;
  int unwind_tries_max_ = 0;
  Task* current_ = nullptr;
};

}  // namespace rehearse::fiber
