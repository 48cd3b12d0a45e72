#include "runtime/rpc/inline_calls.hpp"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <utility>

#include "runtime/base/random.hpp"
#include "runtime/rpc/exceptions.hpp"

namespace rehearse::rpc {

void InlineJob::enter(int rank, InlineCalls& calls) {
  workers_[rank] = &calls;
  for (const auto& [tasks, task] : std::exchange(waiting_, {})) tasks->unpark(task);
}

InlineCalls& InlineJob::at(int rank, World& world) {
  for (;;) {
    if (const auto found = workers_.find(rank); found != workers_.end()) return *found->second;
    waiting_.emplace_back(&world.tasks, world.tasks.current());
    world.tasks.park(kNever, {"the start", worker_name(rank)});
  }
}

InlineCalls* InlineJob::find(int rank) const {
  const auto found = workers_.find(rank);
  return found == workers_.end() ? nullptr : found->second;
}

RefPtr InlineReferences::handle(const Reference& what) {
  ++job_.references[what.ref];
  return std::make_shared<RefHandle>(weak_from_this(), what);
}

RefPtr InlineReferences::own(ValuePtr value) {
  RefPtr owned = mint(self());
  promise(owned->what().ref).set(std::move(value));
  return owned;
}

RefPtr InlineReferences::mint(int owner) {
  const auto at = static_cast<std::uint16_t>(owner), by = static_cast<std::uint16_t>(self());
  const std::uint32_t number = ++minted_[owner];
  return handle({{at, by, number}, {at, by, number}});
}

void InlineReferences::settle(const Reference& what, Status answer) {
  if (!answer.ok()) failed_.emplace(what.ref, answer.failure());
}

Status InlineReferences::status(const Reference& what) const {
  const auto failed = failed_.find(what.ref);
  return failed == failed_.end() ? Status() : Status(failed->second);
}

void InlineReferences::drop(const Reference& what) {
  if (--job_.references.at(what.ref) > 0) return;
  job_.references.erase(what.ref);
  if (InlineCalls* owner = job_.find(what.ref.owner)) owner->references().free(what.ref);
}

void InlineReferences::adopt(std::vector<RefPtr>& refs) {
  for (RefPtr& ref : refs) {
    if (ref) ref = handle(ref->what());
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
      handler_state_(handlers),
      references_(std::make_shared<InlineReferences>(job, world, places_, *this)) {
  job_.enter(world.self.rank, *this);
}

void InlineCalls::issue(int rank, Request request, Time, Complete complete) {
  const std::uint64_t call = next_call_++;
  InlineCalls& callee = job_.at(rank, world_);
  request.arguments.tensors =
      crossing_.in_place(static_cast<std::uint16_t>(rank), request.arguments.tensors);
  callee.references_->adopt(request.arguments.refs);
  Place place = places_.issue();
  place.observer = &callee.crossing_;
  std::optional<Packed> result;
  std::optional<Failure> failure;
  try {
    result = callee.serve(*this, call, place, request);
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
}

Packed InlineCalls::serve(InlineCalls& caller, std::uint64_t call, const Place& place,
                          Request& request) {
  const auto from = static_cast<std::uint16_t>(caller.world_.self.rank);
  if (place.context != 0) crossing_.join(place, from).or_throw();
  // Number and caller of the call, as in a request.
  const std::uint64_t salt = Hash64().add(from).add(call).value();
  Packed result;
  handler_state_.run_in_place(world_.tasks.current(), place, salt, [&] {
    result = run(request);
    result.tensors = crossing_.in_place(from, result.tensors);
  });
  caller.references_->adopt(result.refs);
  return result;
}

Packed InlineCalls::run(Request& request) {
  const RefId ref = request.what.ref;
  if (request.kind == MessageKind::fetch) {
    Packed copy;
    Packer to(copy);
    references_->value(ref).wait()->put(to);
    return copy;
  }
  const bool keep = request.kind == MessageKind::remote;
  const Wanted wanted = keep ? Wanted::kept : Wanted::packed;
  const auto call = [&] {
    Returned result = invoke(functions_, worker_, world_.self.name, request.function,
                             request.signature, request.arguments, wanted);
    if (!result.later) return result;
    result.later->wait();
    return result.later->take(wanted);
  };
  if (!keep) return call().packed;
  references_->value(ref);  // from now on it is awaited
  try {
    references_->made(ref, call().kept);
  } catch (const Cancelled&) {
    throw;
  } catch (...) {
    references_->made(ref, failure_of_current_exception(world_.self.name));
  }
  return {};
}

}  // namespace rehearse::rpc
