#include "sim/nic_queue.hpp"

#include <algorithm>

namespace rehearse::sim {

Duration time_for(std::int64_t amount, std::int64_t per_second) {
  __extension__ using Wide = __int128;  // a terabyte times a second in nanoseconds
  const Wide wide =
      static_cast<Wide>(amount) * std::chrono::nanoseconds(std::chrono::seconds(1)).count();
  return Duration(static_cast<std::int64_t>((wide + per_second - 1) / per_second));
}

NicQueue::NicQueue(const ClusterSpec& cluster)
    : cluster_(cluster), busy_until_(static_cast<std::size_t>(cluster.hosts)) {}

Time NicQueue::arrival(virtual_world::HostId from, virtual_world::HostId to, std::size_t size_bytes,
                       Time now) {
  if (from == to) return within(busy_until_[from], size_bytes, now);
  const Duration busy =
      time_for(static_cast<std::int64_t>(size_bytes), cluster_.bandwidth_bytes_per_s);
  Time& sending = busy_until_[from].sending;
  Time& receiving = busy_until_[to].receiving;
  sending = std::max(now, sending) + busy;
  receiving = std::max(sending + cluster_.latency, receiving + busy);
  return receiving;
}

Time NicQueue::within(Busy& host, std::size_t size_bytes, Time now) const {
  host.copying = std::max(now, host.copying) +
                 time_for(static_cast<std::int64_t>(size_bytes), cluster_.memory_bytes_per_s);
  return host.copying + cluster_.latency_within_host;
}

}  // namespace rehearse::sim
