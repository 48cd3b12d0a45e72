#include "runtime/rpc/agent.hpp"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rehearse::rpc {
namespace {

// How often a caller looks whether its peer has taken what is in the air: nobody tells it.
constexpr Duration kCreditPause = std::chrono::microseconds(200);

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
      handler_state_(handlers),
      references_(std::make_shared<CountedReferences>(world, places_, *this,
                                                      [this](std::uint16_t to, Message message) {
                                                        post(to, Lane::control, std::move(message));
                                                      })) {
  for (const MessageKind kind : {MessageKind::request, MessageKind::remote, MessageKind::fetch})
    on(kind, [this](const Address& from, Message m) { on_request(from, std::move(m)); });
  for (const MessageKind kind : {MessageKind::ref_ask, MessageKind::ref_confirm,
                                 MessageKind::ref_accept, MessageKind::ref_release}) {
    on(kind, [this](const Address& from, const Message& m) { references_->hear(from.worker, m); });
  }
  on(MessageKind::reply, [this](const Address& from, Message m) { on_reply(from, std::move(m)); });
  on(MessageKind::error, [this](const Address& from, const Message& m) { on_error(from, m); });
}

Agent::~Agent() = default;

void Agent::on(MessageKind kind, OnMessage handle) {
  handlers_.at(static_cast<std::size_t>(kind)) = std::move(handle);
}

void Agent::on_lost(OnLost handle) {
  for (const auto& [worker, why] : lost_) handle(worker, why);
  on_lost_.push_back(std::move(handle));
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
  auto found = world_.net.find(worker_name(rank), after(world_.clock.now(), world_.limits.find));
  if (found.ok()) addresses_.emplace(rank, found.value());
  return found;
}

void Agent::issue(int rank, Request request, Time deadline, Complete complete) {
  const CallNumber call = next_call_++;
  auto to = address_of(rank);
  if (!to.ok()) return complete(to.failure());
  const std::uint16_t worker = to.value().worker;
  std::size_t bytes = request.arguments.bytes.size();
  for (const auto& tensor : request.arguments.tensors)
    bytes += tensor.defined() ? tensor.nbytes() : 0;
  if (!wait_for_credit(to.value(), bytes, deadline)) {
    world_.events.append({EventKind::deadline_fired, worker, call, 0});
    return complete(
        Failure{Code::timed_out,
                fmt::format("{} did not take earlier messages before the deadline of {}",
                            worker_name(worker), request.function),
                worker_name(worker), 0});
  }
  if (const auto lost = lost_.find(worker); lost != lost_.end()) {
    places_.issue();
    return complete(peer_lost(worker, lost->second));
  }
  Message message{request.kind, {}, {}};
  const Status packed = pack(worker, call, request, deadline, message);
  if (!packed.ok()) return complete(packed.failure());
  pending_.emplace(call, Pending{worker, std::string(request.function), places_.current().context,
                                 deadline, std::move(complete)});
  add_deadline(deadline, call);
  const Status sent = endpoint_->send(to.value(), Lane::data, std::move(message));
  if (!sent.ok()) this->complete(call, sent.failure());
}

// The send node belongs to what the caller has done so far; what follows, to the next position.
Status Agent::pack(std::uint16_t to, CallNumber call, Request& request, Time deadline,
                   Message& message) {
  const Place& here = places_.current();
  RequestHead head{call,
                   std::string(request.function),
                   request.signature,
                   request.what,
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
  message.header.reserve(160);
  Writer header(message.header);
  head.encode(request.kind, header);
  Status packed =
      put_body(to, std::move(request.arguments), crossing_, *references_, message, world_.net);
  places_.issue();
  return packed;
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
  auto body = take_body(from.worker, reader, message, *references_);
  const auto found = pending_.find(call);
  if (found == pending_.end() || found->second.worker != from.worker) {
    world_.events.append({EventKind::late_reply, from.worker, call, 0});
  } else if (!body.ok()) {
    complete(call, body.failure());
  } else {
    complete(call,
             enter_body(found->second.context, from.worker, std::move(body).value(), crossing_));
  }
}

void Agent::on_error(const Address& from, const Message& message) {
  Reader reader(message.header);
  const CallNumber call = reader.get_varint();
  Failure failure = decode_failure(reader);
  const auto found = pending_.find(call);
  if (found == pending_.end() || found->second.worker != from.worker) {
    world_.events.append({EventKind::late_reply, from.worker, call, 0});
  } else {
    complete(call, std::move(failure));
  }
}

void Agent::lose(std::uint16_t worker, const std::string& why) {
  if (!lost_.emplace(worker, why).second) return;
  std::vector<CallNumber> calls;
  for (const auto& [call, pending] : pending_) {
    if (pending.worker == worker) calls.push_back(call);
  }
  for (const CallNumber call : calls) complete(call, peer_lost(worker, why));
  references_->peer_lost(worker, why);
  for (const auto& handle : on_lost_) handle(worker, why);
  for (const auto& told : std::exchange(watchers_[worker], {})) told(peer_lost(worker, why));
}

void Agent::when_lost(int rank, OnPeerLost told) {
  const auto worker = static_cast<std::uint16_t>(rank);
  if (const auto found = lost_.find(worker); found != lost_.end()) {
    return told(peer_lost(worker, found->second));
  }
  // A peer is watched from the first message on, and there may never be another.
  auto& watchers = watchers_[rank];
  if (watchers.empty()) post(worker, Lane::control, {MessageKind::hello, {}, {}});
  watchers.push_back(std::move(told));
}

void Agent::post(std::uint16_t worker, Lane lane, Message message) {
  const auto known = addresses_.find(worker);
  const auto waiting = unaddressed_.find(worker);
  if (known != addresses_.end() && waiting == unaddressed_.end()) {
    const Status sent = endpoint_->send(known->second, lane, std::move(message));
    (void)sent;  // a loss is told by the endpoint, once
    return;
  }
  unaddressed_[worker].emplace_back(lane, std::move(message));
  if (waiting != unaddressed_.end()) return;
  world_.tasks.spawn("address of " + worker_name(worker), Duty::background,
                     [this, worker] { send_when_found(worker); });
}

void Agent::send_when_found(std::uint16_t worker) {
  auto to = address_of(worker);
  const auto messages = unaddressed_.extract(worker);
  if (!to.ok()) return lose(worker, to.failure().message);
  for (auto& [lane, message] : messages.mapped()) {
    const Status sent = endpoint_->send(to.value(), lane, std::move(message));
    (void)sent;  // a loss is told by the endpoint, once
  }
}

}  // namespace rehearse::rpc
