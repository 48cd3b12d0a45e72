#pragma once

#include <vector>

#include "runtime/virtual/physics.hpp"
#include "sim/platform.hpp"

namespace rehearse::sim {

/// Amount / rate, in whole nanoseconds, rounded up: the same on every machine.
Duration time_for(std::int64_t amount, std::int64_t per_second);

/// When small messages arrive: latency + size / bandwidth, after what the sender's network
/// interface still has to send, and not before the receiver's has taken in what came earlier.
/// Pure integers. Messages of one pair arrive in the order of sending.
///
/// A simplification: a receiver takes messages in the order in which they were sent, whoever sent
/// them, and large messages are not seen here, nor are these seen by them.
class NicQueue {
 public:
  explicit NicQueue(const ClusterSpec& cluster);

  Time arrival(virtual_world::HostId from, virtual_world::HostId to, std::size_t size_bytes,
               Time now);

 private:
  struct Busy {
    Time sending{};
    Time receiving{};
    Time copying{};  // within the host
  };
  Time within(Busy& host, std::size_t size_bytes, Time now) const;

  ClusterSpec cluster_;
  std::vector<Busy> busy_until_;
};

}  // namespace rehearse::sim
