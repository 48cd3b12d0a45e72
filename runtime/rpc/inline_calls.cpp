#include "runtime/rpc/inline_calls.hpp"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <utility>

namespace rehearse::rpc {

void InlineJob::enter(int rank, InlineCalls& calls) {
  workers_[rank] = &calls;
  for (const auto& [tasks, task] : std::exchange(waiting_, {})) tasks->unpark(task);
}

InlineCalls& InlineJob::at(int rank, World& world) {
  for (;;) {
    if (const auto found = workers_.find(rank); found != workers_.end()) return *found->second;
    waiting_.emplace_back(&world.tasks, world.tasks.current());
    world.tasks.park(kNever, {"the start", fmt::format("w{}", rank)});
  }
}

InlineCalls::InlineCalls(InlineJob& job, World& world, Worker& worker, const Functions& functions,
                         Crossing& crossing, HandlerState& handlers)
    : job_(job),
      world_(world),
      places_(handlers.places()),
      worker_(worker),
      functions_(functions),
      crossing_(crossing),
      handler_state_(handlers) {
  job_.enter(world.self.rank, *this);
}

Calls::CallNumber InlineCalls::issue(int rank, std::string_view function,
                                     std::string_view signature, Packed arguments, Time,
                                     Complete complete) {
  const CallNumber call = next_call_++;
  InlineCalls& callee = job_.at(rank, world_);
  arguments.tensors = crossing_.in_place(static_cast<std::uint16_t>(rank), arguments.tensors);
  Place place = places_.issue();
  place.observer = &callee.crossing_;
  std::optional<Packed> result;
  std::optional<Failure> failure;
  try {
    result = callee.serve(*this, call, place, function, signature, std::move(arguments));
  } catch (const Cancelled&) {
    throw;
  } catch (...) {
    failure = failure_of_current_exception(callee.world_.self.name);
  }
  if (failure) {
    complete(std::move(*failure));
  } else {
    complete(std::move(*result));
  }
  return call;
}

Packed InlineCalls::serve(const InlineCalls& caller, CallNumber call, const Place& place,
                          std::string_view function, std::string_view signature, Packed arguments) {
  const auto from = static_cast<std::uint16_t>(caller.world_.self.rank);
  if (place.context != 0) crossing_.join(place, from).or_throw();
  // Number and caller of the call, as in a request.
  const std::uint64_t salt = Hash64().add(from).add(call).value();
  Packed result;
  handler_state_.run_in_place(world_.tasks.current(), place, salt, [&] {
    result =
        invoke(functions_, worker_, world_.self.name, function, signature, std::move(arguments));
    result.tensors = crossing_.in_place(from, result.tensors);
  });
  return result;
}

}  // namespace rehearse::rpc
