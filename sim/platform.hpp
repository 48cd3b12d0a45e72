#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/time.hpp"

namespace simgrid::s4u {
class Host;
}

namespace rehearse::sim {

/// A cluster of equal hosts, each with one full-duplex link to a switch that is never the
/// bottleneck.
struct ClusterSpec {
  int hosts = 1;
  Duration latency = std::chrono::microseconds(50);    ///< host to host, one way
  std::int64_t bandwidth_bytes_per_s = 1'250'000'000;  ///< of a host's link, each way
  Duration latency_within_host = std::chrono::microseconds(1);
  std::int64_t speed_flops_per_s = 50'000'000'000;   ///< of one worker
  std::int64_t memory_bytes_per_s = 20'000'000'000;  ///< also between workers of one host
  std::size_t small_below_bytes = 16 << 10;  ///< smaller messages do not contend, except for NICs
};

struct Platform {
  std::vector<simgrid::s4u::Host*> hosts;
  simgrid::s4u::Host* observer = nullptr;  ///< runs the conductor; outside the cluster
};

/// Builds the cluster in SimGrid's engine, which must exist and hold no platform yet.
Platform build_platform(const ClusterSpec& cluster);

}  // namespace rehearse::sim
