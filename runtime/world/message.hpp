#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/time.hpp"

namespace rehearse {

/// Control messages overtake bulk data. No order holds between lanes.
enum class Lane : std::uint8_t { control, data };
inline constexpr int kLanes = 2;

/// What a message says; LIFE of each is in docs/protocol.md. A closed set with stable names
/// (`rehearse list messages`): scenario files name them, so the seam knows them.
enum class MessageKind : std::uint8_t {
  hello,  ///< capability class and library version, before anything else to a peer
  request,
  reply,
  error,
  turn_ask,
  turn,
  turn_end,
  query,
  answer,
  start,
  grad,
  done,
  fail,
  commit,
  abort,
  close,
  open_ask,
  open_answer,
  finished,     ///< the sender's program has returned
  join,         ///< who gathers asks for `finished`
  release,      ///< all have finished: end
  verdict_ask,  ///< who lost a pass's initiator after its report asks how the pass ended
  verdict,
  remote,       ///< a call whose result stays with the callee, behind a reference
  fetch,        ///< asks for the value behind a reference
  ref_ask,      ///< a worker that was handed a reference makes it known to the owner
  ref_confirm,  ///< the owner knows of it, or says why it cannot be
  ref_accept,   ///< tells who handed it over that the owner has answered
  ref_release,  ///< tells the owner that a reference is gone
  user,         ///< of tests and benchmarks
};
inline constexpr int kMessageKinds = static_cast<int>(MessageKind::user) + 1;
std::string_view name(MessageKind kind);

/// The header is encoded in every world; payloads are bulk bytes (tensors).
struct Message {
  MessageKind kind = MessageKind::user;
  Bytes header;
  std::vector<Payload> payloads;

  std::size_t size_bytes() const {
    std::size_t total = header.size();
    for (const Payload& payload : payloads) total += payload.size_bytes();
    return total;
  }
};

/// How a peer came to be lost. A bare connection can only say `unknown` or `unreachable`; the
/// supervisor's notice says the rest and may follow. Decide nothing on the difference.
enum class LossCause : std::uint8_t { ended, exited, killed, host_lost, unreachable, unknown };
std::string_view name(LossCause cause);

struct Received {
  Lane lane = Lane::control;
  Message message;
};
struct PeerLost {
  LossCause cause = LossCause::unknown;
  std::string detail;  ///< a sentence for people
};
struct ChildExited {
  ChildId child;
  int exit_code = 0;
  int signal = 0;
};
struct ChildStopped {
  ChildId child;
  bool continued = false;
};
struct StopRequested {
  Time grace_until{};
};

/// What an endpoint receives: a message, or news. `from` is the sender, or whom the news is about.
struct Envelope {
  Address from;
  std::variant<Received, PeerLost, ChildExited, ChildStopped, StopRequested> what;
};

}  // namespace rehearse
