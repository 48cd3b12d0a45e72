#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/rpc/crossing.hpp"
#include "runtime/rpc/wire.hpp"
#include "runtime/world/buffers.hpp"
#include "runtime/world/message.hpp"

namespace rehearse::rpc {

/// What a request says beside its arguments.
struct RequestHead {
  std::uint64_t id = 0;  ///< the caller's number of this call
  std::string function;
  std::string signature;
  bool grad_enabled = true;              ///< the caller's grad mode
  Duration remaining = Duration::max();  ///< until the caller gives up
  ContextId context = 0;
  std::int64_t step = 0;
  std::uint32_t ordinal = 0;
  CallPath path;

  void encode(Writer& to) const;
  static Result<RequestHead> decode(Reader& from);
};

/// Appends a crossing section, plain bytes and tensors to a message whose head is written. Tensors
/// that must be copied go to memory of `buffers`.
/// Fails with `bad_argument` for tensors that cannot cross.
Status put_body(std::uint16_t to, Packed body, Crossing& crossing, Message& message,
                Buffers& buffers);

/// Reads what `put_body` wrote. Fails with `corrupt`, or as `Crossing::enter` does.
Result<Packed> get_body(ContextId context, std::uint16_t from, Reader& head, Message& message,
                        Crossing& crossing);

void encode_failure(const Failure& failure, Writer& to);
/// `corrupt` in the place of what `encode_failure` does not write.
Failure decode_failure(Reader& from);

}  // namespace rehearse::rpc
