#include "runtime/rpc/agent.hpp"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rehearse::rpc {
namespace {

// How often a caller looks whether its peer has taken what is in the air: nobody tells it.
constexpr Duration kCreditPause = std::chrono::microseconds(200);

std::string worker_name(std::uint16_t worker) { return fmt::format("w{}", worker); }

Failure peer_lost(std::uint16_t worker, const std::string& why) {
  return {Code::peer_lost, fmt::format("{} is lost: {}", worker_name(worker), why),
          worker_name(worker), 0};
}

}  // namespace

Agent::Agent(World& world, std::unique_ptr<Endpoint> endpoint, Worker& worker,
             const Functions& functions, Crossing& crossing, HandlerState& handlers)
    : world_(world),
      places_(handlers.places()),
      endpoint_(std::move(endpoint)),
      worker_(worker),
      functions_(functions),
      crossing_(crossing),
      handler_state_(handlers) {
  on(MessageKind::request,
     [this](const Address& from, Message m) { on_request(from, std::move(m)); });
  on(MessageKind::reply, [this](const Address& from, Message m) { on_reply(from, std::move(m)); });
  on(MessageKind::error, [this](const Address& from, Message m) { on_error(from, std::move(m)); });
}

Agent::~Agent() = default;

void Agent::on(MessageKind kind, OnMessage handle) {
  handlers_.at(static_cast<std::size_t>(kind)) = std::move(handle);
}

void Agent::serve() {
  world_.tasks.spawn("rpc service", Duty::background, [this] { receive_all(); });
  deadline_task_ =
      world_.tasks.spawn("rpc deadlines", Duty::background, [this] { watch_deadlines(); });
}

void Agent::receive_all() {
  for (;;) {
    auto envelope = endpoint_->receive(kNever);
    if (!envelope.ok()) return;  // the endpoint closes: the worker ends
    auto& [from, what] = envelope.value();
    if (auto* received = std::get_if<Received>(&what)) {
      // So that an answer, or a context closed while an exception unwinds, never waits for a name.
      addresses_.try_emplace(from.worker, from);
      dispatch(from, std::move(received->message));
    } else if (const auto* gone = std::get_if<PeerLost>(&what)) {
      lose(from.worker, gone->detail.empty() ? std::string(name(gone->cause)) : gone->detail);
    }
  }
}

void Agent::dispatch(const Address& from, Message message) {
  const auto& handle = handlers_.at(static_cast<std::size_t>(message.kind));
  if (handle) handle(from, std::move(message));
}

// --- calling

Result<Address> Agent::address_of(int rank) {
  if (const auto known = addresses_.find(rank); known != addresses_.end()) return known->second;
  auto found =
      world_.net.find(fmt::format("w{}", rank), after(world_.clock.now(), world_.limits.find));
  if (found.ok()) addresses_.emplace(rank, found.value());
  return found;
}

Calls::CallNumber Agent::issue(int rank, std::string_view function, std::string_view signature,
                               Packed arguments, Time deadline, Complete complete) {
  const CallNumber call = next_call_++;
  auto to = address_of(rank);
  if (!to.ok()) {
    complete(to.failure());
    return call;
  }
  const std::uint16_t worker = to.value().worker;
  std::size_t bytes = arguments.bytes.size();
  for (const auto& tensor : arguments.tensors) bytes += tensor.defined() ? tensor.nbytes() : 0;
  if (!wait_for_credit(to.value(), bytes, deadline)) {
    world_.events.append({EventKind::deadline_fired, worker, call, 0});
    complete(Failure{Code::timed_out,
                     fmt::format("{} did not take earlier messages before the deadline of {}",
                                 worker_name(worker), function),
                     worker_name(worker), 0});
    return call;
  }

  // The send node belongs to what the caller has done so far; what follows, to the next position.
  Bytes section;
  Place& here = places_.current();
  RequestHead head{call,
                   std::string(function),
                   std::string(signature),
                   at::GradMode::is_enabled(),
                   deadline == kNever ? Duration::max() : deadline - world_.clock.now(),
                   here.context,
                   here.step,
                   here.ordinal,
                   {}};
  if (here.path) {
    head.path = *here.path;
    head.path.push_back(2 * here.issued + 1);
  }
  Message message{MessageKind::request, {}, {}};
  message.header.reserve(160);
  Writer header(message.header);
  head.encode(header);
  Status packed = put_body(worker, std::move(arguments), crossing_, message, world_.net);
  places_.issue();
  if (packed.ok() && lost_.contains(worker)) packed = peer_lost(worker, lost_.at(worker));
  if (packed.ok()) {
    pending_.emplace(call,
                     Pending{worker, head.function, head.context, deadline, std::move(complete)});
    add_deadline(deadline, call);
    packed = endpoint_->send(to.value(), Lane::data, std::move(message));
    if (!packed.ok()) this->complete(call, packed.failure());
  } else {
    complete(packed.failure());
  }
  return call;
}

bool Agent::wait_for_credit(const Address& to, std::size_t bytes, Time deadline) {
  for (;;) {
    const std::size_t in_the_air = endpoint_->unacknowledged_bytes(to);
    if (in_the_air == 0 || in_the_air + bytes <= world_.limits.credit_bytes) return true;
    if (lost_.contains(to.worker)) return true;
    if (world_.clock.now() >= deadline) return false;
    world_.tasks.park(world_.clock.now() + kCreditPause, {"credit", worker_name(to.worker)});
  }
}

void Agent::complete(CallNumber call, Result<Packed> result) {
  const auto found = pending_.find(call);
  if (found == pending_.end()) return;
  const Complete done = std::move(found->second.complete);
  deadlines_.erase({found->second.deadline, call});
  pending_.erase(found);
  done(std::move(result));
}

void Agent::expire(CallNumber call) {
  const auto found = pending_.find(call);
  if (found == pending_.end()) return;
  const std::string whom = worker_name(found->second.worker);
  Failure failure{
      Code::timed_out,
      fmt::format("no reply to {} from {} before the deadline", found->second.function, whom), whom,
      0};
  world_.events.append({EventKind::deadline_fired, found->second.worker, call, 0});
  complete(call, std::move(failure));
}

void Agent::add_deadline(Time deadline, CallNumber call) {
  if (deadline == kNever) return;
  deadlines_.emplace(deadline, call);
  if (deadline < deadline_task_until_) world_.tasks.unpark(deadline_task_);
}

void Agent::watch_deadlines() {
  for (;;) {
    while (!deadlines_.empty() && deadlines_.begin()->first <= world_.clock.now()) {
      expire(deadlines_.begin()->second);
    }
    deadline_task_until_ = deadlines_.empty() ? kNever : deadlines_.begin()->first;
    world_.tasks.park(deadline_task_until_, {"the next deadline", {}});
  }
}

// --- answers

void Agent::on_reply(const Address& from, Message message) {
  Reader reader(message.header);
  const CallNumber call = reader.get_varint();
  const auto found = pending_.find(call);
  if (found == pending_.end() || found->second.worker != from.worker) {
    world_.events.append({EventKind::late_reply, from.worker, call, 0});
    return;
  }
  complete(call, get_body(found->second.context, from.worker, reader, message, crossing_));
}

void Agent::on_error(const Address& from, Message message) {
  Reader reader(message.header);
  const CallNumber call = reader.get_varint();
  Failure failure = decode_failure(reader);
  const auto found = pending_.find(call);
  if (found == pending_.end() || found->second.worker != from.worker) {
    world_.events.append({EventKind::late_reply, from.worker, call, 0});
    return;
  }
  complete(call, std::move(failure));
}

void Agent::lose(std::uint16_t worker, const std::string& why) {
  if (!lost_.emplace(worker, why).second) return;
  std::vector<CallNumber> calls;
  for (const auto& [call, pending] : pending_) {
    if (pending.worker == worker) calls.push_back(call);
  }
  for (const CallNumber call : calls) complete(call, peer_lost(worker, why));
  for (const auto& handle : on_lost_) handle(worker, why);
}

void Agent::post(std::uint16_t worker, Lane lane, Message message) {
  auto to = address_of(worker);
  if (!to.ok()) return;
  const Status sent = endpoint_->send(to.value(), lane, std::move(message));
  (void)sent;  // a loss is told by the endpoint, once
}

// --- serving

Packed invoke(const Functions& functions, Worker& worker, const std::string& worker_name,
              std::string_view function, std::string_view signature, Packed arguments) {
  const auto found = functions.find(function);
  if (found == functions.end()) {
    throw Error({Code::unknown_function, fmt::format("no function is named '{}'", function),
                 worker_name, 0});
  }
  if (found->second.signature != signature) {
    throw Error({Code::bad_argument,
                 fmt::format("'{}' is {}, but was called as {}", function, found->second.signature,
                             signature),
                 worker_name, 0});
  }
  Packed result;
  Unpacker from(arguments);
  found->second.handler(worker, from, result);
  return result;
}

Place Agent::place_of(const RequestHead& head) const {
  Place place;
  place.context = head.context;
  place.step = head.step;
  place.ordinal = head.ordinal;
  if (head.context != 0) place.path = std::make_shared<const CallPath>(head.path);
  place.deadline = after(world_.clock.now(), head.remaining);
  place.observer = &crossing_;
  return place;
}

void Agent::on_request(const Address& from, Message message) {
  Reader reader(message.header);
  auto head = RequestHead::decode(reader);
  if (!head.ok()) return answer(from, 0, head.failure());
  const std::uint64_t id = head.value().id;
  const Place place = place_of(head.value());
  if (place.context != 0) {
    if (Status joined = crossing_.join(place, from.worker); !joined.ok()) {
      return answer(from, id, joined.failure());
    }
  }
  auto body = get_body(place.context, from.worker, reader, message, crossing_);
  if (!body.ok()) return answer(from, id, body.failure());
  auto arguments = std::make_shared<Packed>(std::move(body).value());
  const std::uint64_t salt = Hash64().add(from.worker).add(id).value();
  std::string task_name = "handler of " + head.value().function;
  const TaskId task =
      world_.tasks.spawn(std::move(task_name), Duty::background,
                         [this, from, head = std::move(head).value(), place, arguments] {
                           run(from, head, place, std::move(*arguments));
                         });
  handler_state_.seed(task, place, salt);
}

void Agent::run(const Address& from, const RequestHead& head, const Place& place,
                Packed arguments) {
  handler_state_.run(place, head.grad_enabled, [&] {
    Packed result;
    std::optional<Failure> failure;
    try {
      result = invoke(functions_, worker_, world_.self.name, head.function, head.signature,
                      std::move(arguments));
    } catch (const Cancelled&) {
      throw;
    } catch (...) {
      failure = failure_of_current_exception(world_.self.name);
    }
    if (failure) {
      answer(from, head.id, std::move(*failure));
    } else {
      answer(from, head.id, std::move(result));
    }
  });
}

void Agent::answer(const Address& to, std::uint64_t id, Packed result) {
  Message message{MessageKind::reply, {}, {}};
  message.header.reserve(96);
  Writer(message.header).put_varint(id);
  Status packed = put_body(to.worker, std::move(result), crossing_, message, world_.net);
  if (!packed.ok()) {
    return answer(to, id, packed.failure());
  }
  const Status sent = endpoint_->send(to, Lane::data, std::move(message));
  (void)sent;  // a caller that is gone needs no answer
}

void Agent::answer(const Address& to, std::uint64_t id, Failure failure) {
  Message message{MessageKind::error, {}, {}};
  Writer header(message.header);
  header.put_varint(id);
  encode_failure(failure, header);
  const Status sent = endpoint_->send(to, Lane::data, std::move(message));
  (void)sent;
}

}  // namespace rehearse::rpc
