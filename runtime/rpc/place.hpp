#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/world/tasks.hpp"

namespace rehearse {

/// An autograd context: 16 bits worker (unsigned), 16 bits generation, 32 bits counter. 0: none.
using ContextId = std::int64_t;

}  // namespace rehearse

namespace rehearse::rpc {

/// The position of a handler in the sequential program, where every call runs in place: the k-th
/// call that a handler with path P issues has path P·(2k+1). What a handler does itself after
/// having issued j calls has the even position 2j, so it sorts around its callees. The first
/// element is that of the root: 2·worker+1.
using CallPath = std::vector<std::uint32_t>;

struct Place;

/// Told when code of a place starts and stops running: what happens in between belongs to it.
class PlaceObserver {
 public:
  virtual ~PlaceObserver() = default;
  virtual void entered(const Place& place) = 0;
  virtual void left(const Place& place) = 0;
};

/// Where a task is in the program: in which context, at which place of it.
struct Place {
  ContextId context = 0;
  std::int64_t step = 0;                 ///< of the context's creator
  std::uint32_t ordinal = 0;             ///< of the context within the creator's step
  std::shared_ptr<const CallPath> path;  ///< null without a context
  std::uint32_t issued = 0;              ///< calls, tasks and continuations so far
  Time deadline = kNever;                ///< of the request that is being handled
  PlaceObserver* observer = nullptr;     ///< of the worker whose code runs

  /// The place of the next call, task or continuation; it counts as issued.
  Place issue();
};

/// The places of all tasks that share a thread. A spawned task takes the next place of its parent
/// where it is spawned.
class Places final : public SwitchHook {
 public:
  /// The running task's. A reference to it stays good until the task ends.
  Place& current() { return *current_; }

  /// Takes the next index for a call, a task or a continuation.
  Place issue();

  /// The running task goes on at `place`; returns where it was.
  Place replace(Place place);

  std::size_t tasks() const { return places_.size(); }

  /// For the task that runs while this hook is added.
  void adopt(TaskId running) { resumed(running); }

  void spawned(TaskId parent, TaskId child) override;
  void resumed(TaskId task) override;
  void suspended(TaskId task) override;
  void finished(TaskId task) override;

 private:
  static void enter(const Place& place) {
    if (place.observer && place.context != 0) place.observer->entered(place);
  }
  static void leave(const Place& place) {
    if (place.observer && place.context != 0) place.observer->left(place);
  }

  Place outside_;  // of code that no task runs: a program's main before the job
  Place* current_ = &outside_;
  std::unordered_map<TaskId, std::unique_ptr<Place>> places_;
};

/// Runs as another place until it is destroyed: a handler, a continuation, an open context.
class PlaceScope {
 public:
  PlaceScope(Places& places, Place place)
      : places_(places), before_(places.replace(std::move(place))) {}
  ~PlaceScope() { places_.replace(std::move(before_)); }
  PlaceScope(const PlaceScope&) = delete;
  PlaceScope& operator=(const PlaceScope&) = delete;

 private:
  Places& places_;
  Place before_;
};

}  // namespace rehearse::rpc
