#include "sim/simgrid_physics.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/base/check.hpp"

namespace rehearse::sim {

namespace sg = simgrid::s4u;

SimgridPhysics::SimgridPhysics(const ClusterSpec& cluster, std::vector<sg::Host*> hosts)
    : cluster_(cluster),
      simgrid_hosts_(std::move(hosts)),
      small_(cluster),
      hosts_(simgrid_hosts_.size()) {}

Time SimgridPhysics::small_arrival(HostId from, HostId to, std::size_t size_bytes, Time now) {
  if (!connected(from, to)) return kNever;
  return small_.arrival(from, to, size_bytes, now) + link(from, to).extra_latency;
}

ActivityId SimgridPhysics::start_transfer(HostId from, HostId to, std::size_t size_bytes,
                                          Time now) {
  REHEARSE_CHECK(now >= now_, "a transfer that starts in the past");
  now_ = now;
  const ActivityId id{++last_activity_};
  if (connected(from, to)) {
    catch_up();
    start_flow(id, from, to, size_bytes);
  } else {
    due_.emplace(std::pair{now_, id}, true);
  }
  return id;
}

void SimgridPhysics::start_flow(ActivityId id, HostId from, HostId to, std::size_t size_bytes) {
  const auto bandwidth = from == to ? cluster_.memory_bytes_per_s : cluster_.bandwidth_bytes_per_s;
  // SimGrid 3.32 has no rate limit for such flows: a slower link is a larger message.
  const auto sent_bytes = static_cast<std::int64_t>(
      std::ceil(static_cast<double>(size_bytes) / link(from, to).bandwidth_factor));
  auto comm = sg::Comm::sendto_init();
  comm->set_payload_size(static_cast<std::uint64_t>(std::max<std::int64_t>(sent_bytes, 1)));
  comm->set_source(simgrid_hosts_[from])->set_destination(simgrid_hosts_[to]);  // starts it
  const Duration alone = (from == to ? cluster_.latency_within_host : cluster_.latency) +
                         time_for(sent_bytes, bandwidth);
  constexpr Duration kRounding = std::chrono::nanoseconds(2);
  flows_.add({id, from, to, now_ + alone - kRounding}, std::move(comm));
}

void SimgridPhysics::cancel(ActivityId activity) {
  catch_up();
  const auto& flows = flows_.flows();
  for (std::size_t index = 0; index < flows.size(); ++index) {
    if (flows[index].id == activity) return flows_.cancel(index);
  }
  std::erase_if(due_, [&](const auto& entry) { return entry.first.second == activity; });
}

Duration SimgridPhysics::duration(HostId host, const Cost& cost) const {
  const Duration base = std::max(time_for(cost.flops, cluster_.speed_flops_per_s),
                                 time_for(cost.bytes, cluster_.memory_bytes_per_s));
  const double slow_down = hosts_[host].slow_down;
  if (slow_down == 1) return base;
  return Duration(
      static_cast<std::int64_t>(std::ceil(static_cast<double>(base.count()) * slow_down)));
}

Duration SimgridPhysics::latency(HostId from, HostId to) const {
  return (from == to ? cluster_.latency_within_host : cluster_.latency) +
         link(from, to).extra_latency;
}

void SimgridPhysics::set_host(HostId host, bool on, double slow_down) {
  hosts_[host] = {on, slow_down};
  fail_disconnected();
}

void SimgridPhysics::set_link(HostId from, HostId to, bool on, double bandwidth_factor,
                              Duration extra_latency) {
  links_[{from, to}] = {on, bandwidth_factor, extra_latency};
  fail_disconnected();
}

Time SimgridPhysics::next(Time until, std::vector<Completion>& completions) {
  // A flow that ends may have to be told later: then time goes on.
  do {
    advance(until);
    while (!due_.empty() && due_.begin()->first.first <= now_) {
      completions.push_back({due_.begin()->first.second, due_.begin()->second});
      due_.erase(due_.begin());
    }
  } while (completions.empty() && now_ < until);
  return now_;
}

void SimgridPhysics::advance(Time until) {
  if (!due_.empty()) until = std::min(until, due_.begin()->first.first);
  REHEARSE_CHECK(until != kNever || !flows_.flows().empty(), "waits for nothing, for ever");
  std::vector<Flows::Ended> ended;
  now_ = std::max(now_, flows_.run(std::max(until, now_), ended));
  keep(ended, now_);
}

SimgridPhysics::LinkState SimgridPhysics::link(HostId from, HostId to) const {
  const auto found = links_.find({from, to});
  return found == links_.end() ? LinkState{} : found->second;
}

bool SimgridPhysics::connected(HostId from, HostId to) const {
  return hosts_[from].on && hosts_[to].on && link(from, to).on;
}

/// Before a flow starts or stops: from then on the others share in another way.
void SimgridPhysics::catch_up() {
  std::vector<Flows::Ended> ended;
  flows_.catch_up(now_, ended);
  keep(ended, now_);
}

void SimgridPhysics::keep(const std::vector<Flows::Ended>& ended, Time reached) {
  for (const auto& [flow, failed] : ended) {
    due_.emplace(std::pair{reached + link(flow.from, flow.to).extra_latency, flow.id}, failed);
  }
}

void SimgridPhysics::fail_disconnected() {
  catch_up();
  for (std::size_t index = flows_.flows().size(); index-- > 0;) {
    const Flows::Flow flow = flows_.flows()[index];
    if (connected(flow.from, flow.to)) continue;
    flows_.cancel(index);
    due_.emplace(std::pair{now_, flow.id}, true);
  }
}

}  // namespace rehearse::sim
