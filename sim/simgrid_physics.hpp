#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "runtime/virtual/physics.hpp"
#include "sim/flows.hpp"
#include "sim/nic_queue.hpp"
#include "sim/platform.hpp"

namespace rehearse::sim {

using virtual_world::ActivityId;
using virtual_world::Completion;
using virtual_world::HostId;

/// Large messages are SimGrid flows, small ones go by `NicQueue`. Times are whole nanoseconds: what
/// SimGrid completes within a nanosecond completes at its end, in the order of the ids, so nothing
/// depends on SimGrid's own order.
///
/// Hosts and links that are off are this class's matter (SimGrid ends the process when a flow
/// starts at a host that is off): flows that touch them fail at once, small messages never arrive.
/// A link set for one pair delays its messages, and makes flows that start on it larger: slower as
/// asked when alone, taking more than their share when not.
///
/// REQUIRES: used in one actor only, the conductor.
class SimgridPhysics final : public virtual_world::Physics {
 public:
  SimgridPhysics(const ClusterSpec& cluster, std::vector<simgrid::s4u::Host*> hosts);

  Time small_arrival(HostId from, HostId to, std::size_t size_bytes, Time now) override;
  std::size_t small_below_bytes() const override { return cluster_.small_below_bytes; }
  ActivityId start_transfer(HostId from, HostId to, std::size_t size_bytes, Time now) override;
  void cancel(ActivityId activity) override;
  Duration duration(HostId host, const Cost& cost) const override;
  Duration latency(HostId from, HostId to) const override;
  void set_host(HostId host, bool on, double slow_down) override;
  void set_link(HostId from, HostId to, bool on, double bandwidth_factor,
                Duration extra_latency) override;
  Time next(Time until, std::vector<Completion>& completions) override;

 private:
  struct HostState {
    bool on = true;
    double slow_down = 1;
  };
  struct LinkState {
    bool on = true;
    double bandwidth_factor = 1;
    Duration extra_latency{};
  };
  LinkState link(HostId from, HostId to) const;
  bool connected(HostId from, HostId to) const;
  void advance(Time until);
  void catch_up();
  void keep(const std::vector<Flows::Ended>& ended, Time reached);
  void fail_disconnected();
  void start_flow(ActivityId id, HostId from, HostId to, std::size_t size_bytes);

  ClusterSpec cluster_;
  std::vector<simgrid::s4u::Host*> simgrid_hosts_;
  NicQueue small_;
  Flows flows_;
  std::vector<HostState> hosts_;
  std::map<std::pair<HostId, HostId>, LinkState> links_;  // those that are not as the cluster says
  std::map<std::pair<Time, ActivityId>, bool> due_;       // ended, true if failed; to be told then
  std::uint64_t last_activity_ = 0;
  Time now_{};
};

}  // namespace rehearse::sim
