#include "runtime/rpc/envelope.hpp"

#include <utility>

#include "runtime/rpc/tensors.hpp"

namespace rehearse::rpc {
namespace {

// Remaining time travels in microseconds; 0 says "no deadline", so what is over travels as 1.
std::uint64_t encode_remaining(Duration remaining) {
  if (remaining == Duration::max()) return 0;
  return static_cast<std::uint64_t>(std::max<std::int64_t>(1, remaining.count() / 1000));
}

Failure cut_short(const char* what) {
  return {Code::corrupt, std::string("the header of a ") + what + " is cut short", {}, 0};
}

}  // namespace

void RequestHead::encode(MessageKind kind, Writer& to) const {
  to.put_varint(id);
  if (kind != MessageKind::request) rpc::put(what, to);
  if (kind != MessageKind::fetch) {
    to.put_text(function);
    to.put(signature);
  }
  to.put(grad_enabled);
  to.put_varint(encode_remaining(remaining));
  to.put(context);
  if (context == 0) return;
  to.put_varint(static_cast<std::uint64_t>(step));
  to.put_varint(ordinal);
  to.put_varint(path.size());
  for (const std::uint32_t index : path) to.put_varint(index);
}

Result<RequestHead> RequestHead::decode(MessageKind kind, Reader& from) {
  RequestHead head;
  head.id = from.get_varint();
  if (kind != MessageKind::request) {
    const auto reference = get_reference(from);
    if (!reference) return cut_short("request");
    head.what = *reference;
  }
  if (kind != MessageKind::fetch) {
    head.function = from.get_text();
    head.signature = from.get<std::uint64_t>();
  }
  head.grad_enabled = from.get<bool>();
  const std::uint64_t remaining_us = from.get_varint();
  if (remaining_us != 0 && remaining_us < static_cast<std::uint64_t>(INT64_MAX / 1000)) {
    head.remaining = std::chrono::microseconds(remaining_us);
  }
  head.context = from.get<ContextId>();
  if (head.context != 0) {
    head.step = static_cast<std::int64_t>(from.get_varint());
    head.ordinal = static_cast<std::uint32_t>(from.get_varint());
    head.path.resize(from.get_count());
    for (auto& index : head.path) index = static_cast<std::uint32_t>(from.get_varint());
  }
  if (from.failed()) return cut_short("request");
  return head;
}

Status put_body(std::uint16_t to, Packed body, Crossing& crossing, CountedReferences& references,
                Message& message, Buffers& buffers) {
  // What may be refused comes before what leaves a trace here.
  if (Status crossable = check_tensors(body.tensors); !crossable.ok()) return crossable;
  Bytes section;
  Writer section_writer(section);
  if (Status left = crossing.leave(to, body.tensors, section_writer); !left.ok()) return left;
  Writer header(message.header);
  header.put_bytes(section);
  header.put_bytes(body.bytes);
  if (Status packed = pack_tensors(std::move(body.tensors), header, message.payloads, buffers);
      !packed.ok()) {
    return packed;
  }
  references.share(to, body.refs, header);
  return {};
}

Result<Body> take_body(std::uint16_t from, Reader& head, Message& message,
                       CountedReferences& references) {
  Body body;
  body.crossing = head.get_bytes();
  const auto bytes = head.get_bytes();
  body.packed.bytes.assign(bytes.begin(), bytes.end());
  std::size_t next_payload = 0;
  auto tensors = unpack_tensors(head, message.payloads, next_payload);
  if (!tensors.ok()) return tensors.failure();
  body.packed.tensors = std::move(tensors).value();
  auto refs = references.receive(from, head);
  if (!refs.ok()) return refs.failure();
  body.packed.refs = std::move(refs).value();
  if (head.failed()) return cut_short("message with tensors");
  return body;
}

Result<Packed> enter_body(ContextId context, std::uint16_t from, Body body, Crossing& crossing) {
  Reader section(body.crossing);
  Status entered = crossing.enter(context, from, body.packed.tensors, section);
  if (!entered.ok()) return entered.failure();
  return std::move(body.packed);
}

void encode_failure(const Failure& failure, Writer& to) {
  to.put(failure.code);
  to.put_text(failure.message);
  to.put_text(failure.worker);
  to.put(failure.context);
}

Failure decode_failure(Reader& from) {
  Failure failure;
  failure.code = from.get<Code>();
  failure.message = from.get_text();
  failure.worker = from.get_text();
  failure.context = from.get<std::int64_t>();
  if (from.failed() || static_cast<int>(failure.code) >= kCodes || failure.code == Code::ok) {
    return cut_short("failure");
  }
  return failure;
}

}  // namespace rehearse::rpc
