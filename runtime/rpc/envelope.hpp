#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/rpc/crossing.hpp"
#include "runtime/rpc/references.hpp"
#include "runtime/rpc/wire.hpp"
#include "runtime/world/buffers.hpp"
#include "runtime/world/message.hpp"

namespace rehearse::rpc {

/// What a request says beside its arguments.
struct RequestHead {
  std::uint64_t id = 0;  ///< the caller's number of this call
  std::string function;
  std::uint64_t signature = 0;           ///< `Function::key()`
  Reference what;                        ///< of `remote` and `fetch`
  bool grad_enabled = true;              ///< the caller's grad mode
  Duration remaining = Duration::max();  ///< until the caller gives up
  ContextId context = 0;
  std::int64_t step = 0;
  std::uint32_t ordinal = 0;
  CallPath path;

  void encode(MessageKind kind, Writer& to) const;
  static Result<RequestHead> decode(MessageKind kind, Reader& from);
};

/// Appends a crossing section, plain bytes, tensors and references to a message whose head is
/// written. The message must be sent then. Fails with `bad_argument` for tensors that cannot cross,
/// or as `Crossing::leave` does, having cut nothing. Tensors that must be copied go to memory of
/// `buffers`.
Status put_body(std::uint16_t to, Packed body, Crossing& crossing, CountedReferences& references,
                Message& message, Buffers& buffers);

/// What `put_body` wrote, not yet in its context.
struct Body {
  Packed packed;
  std::span<const std::byte> crossing;  ///< of the message's header
};
/// Fails with `corrupt`. Dropping the result gives up the references in it.
Result<Body> take_body(std::uint16_t from, Reader& head, Message& message,
                       CountedReferences& references);
/// Brings it into the context. Fails as `Crossing::enter` does.
Result<Packed> enter_body(ContextId context, std::uint16_t from, Body body, Crossing& crossing);

void encode_failure(const Failure& failure, Writer& to);
/// `corrupt` in the place of what `encode_failure` does not write.
Failure decode_failure(Reader& from);

}  // namespace rehearse::rpc
