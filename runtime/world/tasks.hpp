#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/fiber/task.hpp"

namespace rehearse {

/// What an operation costs where computing takes time.
struct Cost {
  std::int64_t flops = 0;
  std::int64_t bytes = 0;
};

/// This worker's tasks. One runs at a time; it switches only in `park`, `yield`, `sleep_until`,
/// `offload`, `join`, `Endpoint::receive`, `Net::find` and `Disk` calls. Each of these first waits
/// until the world has reached this worker's local time (what `Compute::charge` added).
///
/// A worker ends when its main task returns: its other tasks are cancelled and unwound, then its
/// endpoints close. An exception that leaves any task ends the worker as failed.
class Tasks {
 public:
  virtual ~Tasks() = default;

  virtual TaskId spawn(std::string name, Duty duty, std::function<void()> body) = 0;
  virtual TaskId current() const = 0;

  /// Stops the calling task until `unpark` or `deadline`. An `unpark` of a task that is not parked
  /// is forgotten (false): look at the condition, then park, in a loop.
  /// REQUIRES: no `NoWait` is alive (throws Error{wait_refused} with its place), and not in a
  /// destructor during unwinding (ends the process with the place).
  virtual Wake park(Time deadline, WaitReason reason) = 0;
  virtual bool unpark(TaskId task) = 0;

  /// Lets what is ready, and in real worlds what has arrived, run first.
  virtual void yield() = 0;

  /// Its next wait, or the present one, throws `Cancelled`. Ended tasks are ignored.
  virtual void cancel(TaskId task) = 0;
  virtual Wake join(TaskId task, Time deadline) = 0;

  /// Runs blocking work on a helper thread; the task waits. An exception of `work` comes out here.
  /// A cancelled task unwinds only after its work has returned. No autograd graph may be recorded
  /// in it. In virtual worlds it runs at once, then the task parks for `cost`.
  virtual void offload(const Cost& cost, std::function<void()> work) = 0;

  /// `hook` must outlive this worker's tasks.
  virtual void add_hook(SwitchHook& hook) = 0;

  /// Alive until all tasks of this worker have ended: what they refer to.
  void keep(std::shared_ptr<void> object) { kept_.push_back(std::move(object)); }

  /// While refused, every wait of the *calling task* throws Error{wait_refused} that names `place`
  /// (a literal). Nests; see `NoWait`.
  virtual void refuse_waits(const char* place) = 0;
  virtual void allow_waits() = 0;

 private:
  std::vector<std::shared_ptr<void>> kept_;
};

/// Waiting is refused while this lives: inside a torch node or hook that our executor runs, in our
/// own callbacks.
class NoWait {
 public:
  NoWait(Tasks& tasks, const char* place) : tasks_(tasks) { tasks_.refuse_waits(place); }
  ~NoWait() { tasks_.allow_waits(); }
  NoWait(const NoWait&) = delete;
  NoWait& operator=(const NoWait&) = delete;

 private:
  Tasks& tasks_;
};

}  // namespace rehearse
