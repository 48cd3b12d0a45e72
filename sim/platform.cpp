#include "sim/platform.hpp"

#include <fmt/format.h>

#include <simgrid/s4u.hpp>

namespace rehearse::sim {
namespace {

namespace sg = simgrid::s4u;

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

/// Both directions of a host's link, at half the latency each: a route crosses two of them.
void connect(sg::NetZone& zone, const sg::Host& host, const ClusterSpec& cluster) {
  auto* link = zone.create_split_duplex_link(fmt::format("link_{}", host.get_cname()),
                                             static_cast<double>(cluster.bandwidth_bytes_per_s));
  link->set_latency(seconds(cluster.latency) / 2)->seal();
  zone.add_route(host.get_netpoint(), nullptr, nullptr, nullptr,
                 {{link, sg::LinkInRoute::Direction::UP}}, true);
}

void connect_to_itself(sg::NetZone& zone, const sg::Host& host, const ClusterSpec& cluster) {
  auto* memory = zone.create_link(fmt::format("memory_{}", host.get_cname()),
                                  static_cast<double>(cluster.memory_bytes_per_s));
  memory->set_latency(seconds(cluster.latency_within_host))->seal();
  zone.add_route(host.get_netpoint(), host.get_netpoint(), nullptr, nullptr,
                 {sg::LinkInRoute(memory)});
}

}  // namespace

Platform build_platform(const ClusterSpec& cluster) {
  Platform platform;
  auto* root = sg::create_full_zone("root");
  auto* zone = sg::create_star_zone("cluster");
  zone->set_parent(root);
  for (int index = 0; index < cluster.hosts; ++index) {
    const auto speed = static_cast<double>(cluster.speed_flops_per_s);
    auto* host = zone->create_host(fmt::format("host{}", index), speed);
    connect(*zone, *host, cluster);
    connect_to_itself(*zone, *host, cluster);
    platform.hosts.push_back(host);
  }
  zone->seal();
  auto* outside = sg::create_full_zone("outside");
  outside->set_parent(root);
  platform.observer = outside->create_host("observer", 1e9);
  outside->seal();
  root->seal();
  return platform;
}

}  // namespace rehearse::sim
