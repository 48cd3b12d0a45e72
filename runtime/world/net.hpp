#pragma once

#include <memory>
#include <string_view>

#include "runtime/base/result.hpp"
#include "runtime/world/buffers.hpp"
#include "runtime/world/message.hpp"

namespace rehearse {

/// One place in the network where messages leave and arrive.
///
/// Delivery: a message arrives exactly once, and in the order of sending per (sender, receiver,
/// lane); or the receiver is reported lost, and from then on that incarnation is never heard again.
/// Which messages had arrived before a loss is unknown to the sender.
///
/// One task receives; any task of the worker sends. Destroying it wakes its receiver with
/// `stopped`, sends what is queued for at most `Limits::linger`, and peers see it `ended`.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  /// Hands `message` over and never waits. Do not write to the payloads afterwards. To the own
  /// address it works too, like to any other.
  /// Fails with `peer_lost` if `to` is known to be gone, `stale_generation` if it is of an older
  /// generation. Success says nothing about arrival.
  virtual Status send(const Address& to, Lane lane, Message message) = 0;

  /// Waits for the next message or event; other tasks of this worker run meanwhile.
  /// A lost peer is reported once, after the last message of it that arrived on either lane. Peers
  /// are watched from the first message in either direction. Fails with `timed_out` at `deadline`
  /// (later arrivals are kept), `stopped` when the endpoint closes.
  virtual Result<Envelope> receive(Time deadline) = 0;

  /// Bytes handed over and not yet acknowledged by `to`: what credit is counted in (by RPC).
  virtual std::size_t unacknowledged_bytes(const Address& to) const = 0;

  virtual const Address& address() const = 0;
};

/// As `Buffers`: memory to write a payload into, from where it leaves without another copy if the
/// transport can.
class Net : public Buffers {
 public:
  /// Opens an endpoint that peers find as `name`. Names are unique in a job and generation:
  /// `bad_argument` for one that is taken.
  virtual Result<std::unique_ptr<Endpoint>> open(std::string_view name) = 0;

  /// The address behind `name`, waiting until somebody has published it. Children are born with
  /// their launcher's book; later entries come with membership changes. Fails with `timed_out`.
  virtual Result<Address> find(std::string_view name, Time deadline) = 0;
  virtual Status publish(std::string_view name, const Address& address) = 0;
};

}  // namespace rehearse
