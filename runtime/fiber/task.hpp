#pragma once

#include <string>
#include <string_view>

#include "runtime/base/ids.hpp"
#include "runtime/base/time.hpp"

namespace rehearse {

/// Why a wait ended.
enum class Wake { unparked, timed_out };

/// A background task serves others (it receives, beats, handles a request): it keeps no run alive.
/// All waiting tasks are in the wait-for graph.
enum class Duty { foreground, background };

/// What a task waits for: "reply to add" from "w3".
struct WaitReason {
  std::string_view what;  ///< a literal
  std::string whom;       ///< the peer or the object; empty if none
};

/// Thrown out of a wait by `Tasks::cancel` and when a worker ends. Deliberately no std::exception,
/// so that a handler of ordinary errors does not swallow it; whoever catches it must rethrow.
struct Cancelled {};

/// Keeps a layer's per-task state with its task: torch's thread-local state, the current context.
class SwitchHook {
 public:
  virtual ~SwitchHook() = default;
  virtual void spawned(TaskId parent, TaskId child) = 0;  ///< `parent` is zero outside any task
  virtual void resumed(TaskId task) = 0;                  ///< just before it runs (on)
  virtual void suspended(TaskId task) = 0;                ///< just after it stopped, or ended
  virtual void finished(TaskId task) = 0;                 ///< it will not run again
};

}  // namespace rehearse
