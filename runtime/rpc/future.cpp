#include "runtime/rpc/future.hpp"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rehearse::rpc {

bool FutureCore::wait(const std::function<bool()>& ready, Time deadline) {
  const TaskId self = world_.tasks.current();
  while (!ready()) {
    waiters_.push_back(self);
    const Wake wake = world_.tasks.park(std::min(deadline, deadline_), {what_, whom_});
    std::erase(waiters_, self);
    if (wake == Wake::timed_out && !ready() && world_.clock.now() >= deadline) return false;
  }
  return true;
}

void FutureCore::completed() {
  for (const TaskId task : std::exchange(waiters_, {})) world_.tasks.unpark(task);
  for (const auto& callback : std::exchange(callbacks_, {})) callback();
}

void FutureCore::on_complete(bool ready, std::function<void()> callback) {
  if (ready) {
    callback();
  } else {
    callbacks_.push_back(std::move(callback));
  }
}

FutureCore::Here FutureCore::here() { return {places_.issue(), at::GradMode::is_enabled()}; }

void FutureCore::start(Here there, std::function<void()> body) {
  // Spawned at its own place, not that of the task that happened to complete the future: a new
  // task's random numbers go by where it is spawned.
  PlaceScope scope(places_, there.place);
  world_.tasks.spawn("continuation of " + what_, Duty::background,
                     [&places = places_, there = std::move(there), body = std::move(body)] {
                       PlaceScope here(places, there.place);
                       c10::AutoGradMode grad_mode(there.grad_enabled);
                       body();
                     });
}

Failure FutureCore::timed_out() const {
  return {Code::timed_out, fmt::format("no {} from {} before the deadline", what_, whom_), whom_,
          0};
}

}  // namespace rehearse::rpc
