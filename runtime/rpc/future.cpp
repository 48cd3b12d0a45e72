#include "runtime/rpc/future.hpp"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rehearse::rpc {

bool FutureCore::wait(const std::function<bool()>& ready, Time deadline) {
  const Time until = std::min(deadline, deadline_);
  const TaskId self = world_.tasks.current();
  while (!ready()) {
    waiters_.push_back(self);
    const Wake wake = world_.tasks.park(until, {what_, whom_});
    std::erase(waiters_, self);
    if (wake == Wake::unparked || ready()) continue;
    if (until == deadline_ && on_deadline) {
      on_deadline();  // completes this future with `timed_out`
      continue;
    }
    return false;
  }
  return true;
}

void FutureCore::completed() {
  for (const TaskId task : std::exchange(waiters_, {})) world_.tasks.unpark(task);
  for (auto& continuation : std::exchange(continuations_, {})) start(std::move(continuation));
}

void FutureCore::then(bool ready, std::function<void()> body) {
  Continuation continuation{places_.issue(), at::GradMode::is_enabled(), std::move(body)};
  if (ready) {
    start(std::move(continuation));
  } else {
    continuations_.push_back(std::move(continuation));
  }
}

void FutureCore::start(Continuation continuation) {
  // Spawned at its own place, not that of the task that happened to complete the future: a new
  // task's random numbers go by where it is spawned.
  PlaceScope there(places_, continuation.place);
  world_.tasks.spawn("continuation of " + what_, Duty::background,
                     [this, continuation = std::move(continuation)] {
                       PlaceScope scope(places_, continuation.place);
                       c10::AutoGradMode grad_mode(continuation.grad_enabled);
                       continuation.body();
                     });
}

Failure FutureCore::timed_out() const {
  return {Code::timed_out, fmt::format("no {} from {} before the deadline", what_, whom_), whom_,
          0};
}

}  // namespace rehearse::rpc
