#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "runtime/base/result.hpp"
#include "runtime/base/time.hpp"
#include "runtime/world/message.hpp"

namespace rehearse {

/// Cumulative, one per lane: the last sequence number that arrived in order; 0 means none yet.
/// Sequence numbers start at 1.
using Acks = std::array<std::uint64_t, kLanes>;

struct DeliveryLimits {
  /// How long a peer may be without a connection before it counts as lost.
  Duration reconnect = std::chrono::seconds(1);
  /// How long an acknowledgement waits for a message that carries it along.
  Duration ack_delay = std::chrono::milliseconds(2);
  /// An acknowledgement does not wait once this much has arrived without one.
  std::size_t ack_bytes = std::size_t{4} << 20;
  std::uint64_t ack_messages = 256;
  /// What was sent and not acknowledged for so long is sent again. For transports that lose things
  /// without saying so; a stream that ends in a disconnect needs none.
  Duration resend = Duration::max();
};

/// A message that the peer has not acknowledged. It stays where it is until then: a transport may
/// keep pointers to its bytes.
struct Outgoing {
  std::uint64_t sequence = 0;
  std::uint64_t lamport = 0;
  Message message;
};

/// What to do with something that came from the peer.
enum class Arrival {
  fresh,      ///< hand it on: it is the next of its lane
  duplicate,  ///< drop it: it has been handed on before
  gap,        ///< drop it and reconnect: one before it is missing
  corrupt,    ///< drop it and reconnect: its checksum is wrong
  late,       ///< drop it: the peer was given up
};

/// What makes messages to and from one peer arrive exactly once and in order on each lane, or the
/// peer be lost, over a transport that may lose, repeat, reorder and damage them and break off.
///
/// A pure core: it knows no sockets and no clock. The transport asks `next` what to send, says
/// `sent`, passes what arrives through `arrived` and `acknowledged`, and tells of connections.
/// After a reconnect everything that the peer did not acknowledge comes out of `next` again.
class Delivery {
 public:
  explicit Delivery(DeliveryLimits limits) : limits_(limits) {}

  // To the peer.

  /// Takes a message for sending. Forgotten if the peer is lost.
  void submit(Lane lane, Message message, std::uint64_t lamport);
  /// The first message of `lane` that this connection has not taken; null: none, or no connection.
  const Outgoing* next(Lane lane) const;
  /// The transport has taken `next(lane)`. REQUIRES: there is one.
  void sent(Lane lane, Time now);
  /// The peer has everything up to `acks`. Fails with `corrupt` if so much was never sent.
  Status acknowledged(const Acks& acks, Time now);
  /// Submitted and not acknowledged.
  std::size_t unacknowledged_bytes() const { return unacknowledged_bytes_; }
  bool all_sent() const;
  bool all_acknowledged() const;
  /// When `resend` must be called at the latest; `kNever` if nothing is in the air.
  Time resend_at() const;
  /// Rewinds to the first message that is not acknowledged.
  void resend(Time now);

  // From the peer.

  /// What to do with message `sequence` of `lane`, of `size_bytes`.
  Arrival arrived(Lane lane, std::uint64_t sequence, std::size_t size_bytes, bool checksum_ok,
                  Time now);
  /// What every frame to the peer carries along.
  const Acks& acks() const { return received_; }
  /// The transport has sent `acks()`.
  void acks_told();
  /// When an acknowledgement must be sent alone; `kNever` if there is nothing to tell.
  Time ack_at() const { return ack_at_; }

  // The connection.

  /// A connection is up, and the peer has said what it has received.
  /// Fails with `corrupt` if it claims what was never sent, `peer_lost` if it was given up.
  Status connected(const Acks& peer_has, Time now);
  void disconnected(Time now);
  /// The peer is known to be gone, or an attempt to reach it has run out of time.
  void lose();
  bool connected() const { return state_ == State::up; }
  bool lost() const { return state_ == State::lost; }
  /// When to give the peer up, if no connection comes before; `kNever` while one is up.
  Time give_up_at() const { return give_up_at_; }

 private:
  enum class State { fresh, up, down, lost };
  struct Sending {
    std::deque<Outgoing> unacknowledged;
    std::size_t taken = 0;         // how many of them this connection has taken
    std::uint64_t assigned = 0;    // last sequence number given out
    std::uint64_t ever_taken = 0;  // last one that any connection has taken
  };

  Sending& sending(Lane lane) { return sending_[static_cast<std::size_t>(lane)]; }
  const Sending& sending(Lane lane) const { return sending_[static_cast<std::size_t>(lane)]; }
  void rewind();

  DeliveryLimits limits_;
  State state_ = State::fresh;
  Time give_up_at_ = kNever;
  std::array<Sending, kLanes> sending_;
  std::size_t unacknowledged_bytes_ = 0;
  Time progress_at_{};
  Acks received_{};
  Time ack_at_ = kNever;
  std::size_t untold_bytes_ = 0;
  std::uint64_t untold_messages_ = 0;
};

}  // namespace rehearse
