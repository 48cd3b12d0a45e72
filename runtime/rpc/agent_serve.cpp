// The callee's side of RPC: requests, their handlers, answers.

#include <fmt/format.h>

#include <utility>

#include "runtime/base/random.hpp"
#include "runtime/rpc/agent.hpp"
#include "runtime/rpc/exceptions.hpp"

namespace rehearse::rpc {

Returned invoke(const Functions& functions, Worker& worker, const std::string& worker_name,
                std::string_view function, std::uint64_t signature, Packed& arguments,
                Wanted wanted) {
  const auto found = functions.find(function);
  if (found == functions.end()) {
    throw Error({Code::unknown_function, fmt::format("no function is named '{}'", function),
                 worker_name, 0});
  }
  if (found->second.key != signature) {
    throw Error({Code::bad_argument,
                 fmt::format("'{}' is {}, but was called with other types", function,
                             found->second.signature),
                 worker_name, 0});
  }
  Unpacker from(arguments);
  return found->second.handler(worker, from, wanted);
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
  auto head = RequestHead::decode(message.kind, reader);
  if (!head.ok()) return answer(from, 0, head.failure());
  auto serving = std::make_shared<Serving>();
  serving->from = from;
  serving->kind = message.kind;
  serving->head = std::move(head).value();
  serving->place = place_of(serving->head);
  const Reference& what = serving->head.what;
  const bool makes = serving->kind == MessageKind::remote;
  if (const Status taken = take(message, reader, *serving); !taken.ok()) {
    if (makes) references_->never_made(what.ref, taken.failure());
    return answer(from, serving->head.id, taken.failure());
  }
  if (makes) {
    references_->created(from.worker, what);
    answer(from, serving->head.id, Packed{});
  }
  const std::uint64_t salt = Hash64().add(from.worker).add(serving->head.id).value();
  const TaskId task = world_.tasks.spawn("handler of " + serving->head.function, Duty::background,
                                         [this, serving] { run(serving); });
  handler_state_.seed(task, serving->place, salt);
}

Status Agent::take(Message& message, Reader& reader, Serving& serving) {
  const std::uint16_t from = serving.from.worker;
  // Read whole before anything is refused: who sends a reference waits until it is confirmed.
  auto body = take_body(from, reader, message, *references_);
  if (!body.ok()) return body.failure();
  if (serving.kind == MessageKind::remote && serving.head.what.ref.owner != world_.self.rank)
    return Failure{Code::corrupt, "a request to make a value of another worker", {}, 0};
  if (serving.place.context != 0) {
    if (Status joined = crossing_.join(serving.place, from); !joined.ok()) return joined;
  }
  auto arguments = enter_body(serving.place.context, from, std::move(body).value(), crossing_);
  if (!arguments.ok()) return arguments.failure();
  serving.arguments = std::move(arguments).value();
  return {};
}

void Agent::run(const std::shared_ptr<Serving>& serving) {
  std::shared_ptr<LaterResult> later;
  handler_state_.run(serving->place, serving->head.grad_enabled, [&] {
    finish(*serving, [&] {
      Returned result = serve(*serving);
      later = result.later;
      serving->place = places_.current();
      return result;
    });
  });
  if (!later) return;
  later->on_complete([this, serving, later] {
    handler_state_.run(serving->place, serving->head.grad_enabled,
                       [&] { finish(*serving, [&] { return later->take(wanted(*serving)); }); });
  });
}

Returned Agent::serve(Serving& serving) {
  const Time deadline = serving.place.deadline;
  if (serving.kind == MessageKind::fetch) {
    const RefId ref = serving.head.what.ref;
    if (!references_->expects(ref)) {
      throw Error(
          {Code::bad_argument, "the value behind the reference was freed", world_.self.name, 0});
    }
    const ValuePtr value = references_->value(ref).wait(deadline);
    Returned result;
    Packer packer(result.packed);
    value->put(packer);
    return result;
  }
  references_->wait_until_confirmed(serving.arguments.refs, deadline);
  return invoke(functions_, worker_, world_.self.name, serving.head.function,
                serving.head.signature, serving.arguments, wanted(serving));
}

void Agent::finish(const Serving& serving, const std::function<Returned()>& get) {
  Returned result;
  std::optional<Failure> failure;
  try {
    result = get();
  } catch (const Cancelled&) {
    throw;
  } catch (...) {
    failure = failure_of_current_exception(world_.self.name);
  }
  if (result.later) return;
  if (serving.kind == MessageKind::remote) {
    const RefId ref = serving.head.what.ref;
    failure ? references_->made(ref, std::move(*failure))
            : references_->made(ref, std::move(result.kept));
  } else if (failure) {
    answer(serving.from, serving.head.id, std::move(*failure));
  } else {
    answer(serving.from, serving.head.id, std::move(result.packed));
  }
}

void Agent::answer(const Address& to, std::uint64_t id, Packed result) {
  Message message{MessageKind::reply, {}, {}};
  message.header.reserve(96);
  Writer(message.header).put_varint(id);
  const Status packed =
      put_body(to.worker, std::move(result), crossing_, *references_, message, world_.net);
  if (!packed.ok()) return answer(to, id, packed.failure());
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
