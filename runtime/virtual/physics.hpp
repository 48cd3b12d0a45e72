#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "runtime/base/time.hpp"
#include "runtime/world/tasks.hpp"

namespace rehearse::virtual_world {

using HostId = std::uint32_t;
struct ActivityId {
  std::uint64_t value = 0;
  auto operator<=>(const ActivityId&) const = default;
};
struct Completion {
  ActivityId activity;
  bool failed = false;
};

/// How long things take in a virtual world. Implementations: constant (latency + size / bandwidth,
/// no contention) and SimGrid.
class Physics {
 public:
  virtual ~Physics() = default;

  /// Small messages: when one that leaves now arrives. Counts the two network interfaces as busy.
  virtual Time small_arrival(HostId from, HostId to, std::size_t size_bytes, Time now) = 0;
  /// Messages of at least so many bytes are transfers, smaller ones go by `small_arrival`.
  virtual std::size_t small_below_bytes() const = 0;

  /// Large messages and disk traffic: completes by `next`.
  virtual ActivityId start_transfer(HostId from, HostId to, std::size_t size_bytes, Time now) = 0;
  virtual void cancel(ActivityId activity) = 0;

  /// What a charge adds to a worker's local time.
  virtual Duration duration(HostId host, const Cost& cost) const = 0;
  /// One way, of an empty message: how soon a reset reaches a peer.
  virtual Duration latency(HostId from, HostId to) const = 0;

  virtual void set_host(HostId host, bool on, double slow_down) = 0;
  virtual void set_link(HostId from, HostId to, bool on, double bandwidth_factor,
                        Duration extra_latency) = 0;

  /// Lets time pass to the first completion, or to `until`. All completions of one instant, in the
  /// order of their ids; none if `until` came first. Returns the time reached. `until` is `kNever`
  /// only while a transfer is under way.
  virtual Time next(Time until, std::vector<Completion>& completions) = 0;
};

}  // namespace rehearse::virtual_world
