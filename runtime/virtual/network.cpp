#include "runtime/virtual/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/check.hpp"

namespace rehearse::virtual_world {

StationId Network::add(const Address& address, std::string name, HostId host) {
  const auto id = static_cast<StationId>(stations_.size());
  stations_.emplace_back();
  stations_.back().address = address;
  stations_.back().name = std::move(name);
  stations_.back().host = host;
  if (by_worker_.size() <= address.worker) by_worker_.resize(address.worker + std::size_t{1});
  auto& endpoints = by_worker_[address.worker];
  REHEARSE_CHECK(endpoints.size() == address.endpoint, "endpoints are numbered as they are added");
  endpoints.push_back(id);
  return id;
}

std::optional<StationId> Network::find(const Address& address) const {
  // Workers' own endpoints come first, so most addresses are their own index.
  const StationId own = address.worker;
  if (own < stations_.size() && stations_[own].address == address) return own;
  if (address.worker >= by_worker_.size()) return std::nullopt;
  const auto& endpoints = by_worker_[address.worker];
  if (address.endpoint >= endpoints.size()) return std::nullopt;
  const StationId id = endpoints[address.endpoint];
  if (stations_[id].address.job != address.job) return std::nullopt;
  return id;
}

AirId Network::take_slot() {
  if (free_slots_.empty()) {
    const auto first = static_cast<AirId>(air_.size() * kChunk);
    air_.push_back(std::make_unique<InAir[]>(kChunk));
    for (AirId id = first + kChunk; id > first; --id) free_slots_.push_back(id - 1);
  }
  const AirId id = free_slots_.back();
  free_slots_.pop_back();
  return id;
}

void Network::free_slot(AirId id) {
  air(id) = InAir{};
  free_slots_.push_back(id);
}

void Network::comes_up(AirId id, int stage) {
  const InAir& item = air(id);
  switch (stage) {
    case 0:
      return __builtin_prefetch(&item);
    case 1:
      return __builtin_prefetch(&stations_[item.to]);
    default:
      return stations_[item.to].peers.prefetch(item.place);
  }
}

void Network::send(StationId from, StationId to, Lane lane, Message message, std::uint64_t lamport,
                   Time at, Duration extra) {
  const AirId id = take_slot();
  InAir& item = air(id);
  item.from = from;
  item.to = to;
  item.lane = lane;
  item.size_bytes = message.size_bytes();
  item.lamport = lamport;
  item.extra = extra;
  item.message = std::move(message);
  item.sender = stations_[from].address;
  item.place = place_of(to, from);
  stations_[to].peers[item.place].unacknowledged_bytes += item.size_bytes;
  if (at <= agenda_.now()) {
    departs(id);
  } else {
    agenda_.departure(at, id);
  }
}

// Of `from` in the peers of `to`. From here on they watch each other.
std::uint32_t Network::place_of(StationId to, StationId from) {
  Peers& peers = stations_[to].peers;
  const std::uint32_t known = peers.place_of(from);
  if (known != Peers::kNone) return known;
  stations_[from].sent_to.push_back(to);
  return peers.add(from);
}

void Network::departs(AirId id) {
  InAir& item = air(id);
  if (!stations_[item.from].open) return free_slot(id);
  Peer& peer = stations_[item.to].peers[item.place];
  const bool small = item.size_bytes < physics_.small_below_bytes();
  if (small && !peer.queued[lane_of(item)]) return start_small(id, peer);
  enqueue(id, peer);
  if (small) {
    start_small(id, peer);
  } else if (item.extra > Duration::zero()) {
    agenda_.call(agenda_.now() + item.extra, [this, id] { start_transfer(id); });
  } else {
    start_transfer(id);
  }
}

void Network::enqueue(AirId id, Peer& peer) {
  InAir& item = air(id);
  item.queued = true;
  peer.queued[lane_of(item)] = true;
  queues_[{item.to, item.place, item.lane}].push_back(id);
}

void Network::start_small(AirId id, Peer& peer) {
  const InAir& item = air(id);
  Time at = physics_.small_arrival(stations_[item.from].host, stations_[item.to].host,
                                   item.size_bytes, agenda_.now());
  at += item.extra;
  Time& last = peer.last_arrival[lane_of(item)];
  if (!item.queued) at = last = std::max(at, last);
  agenda_.arrival(at, id);
}

void Network::start_transfer(AirId id) {
  const InAir& item = air(id);
  const ActivityId activity = physics_.start_transfer(
      stations_[item.from].host, stations_[item.to].host, item.size_bytes, agenda_.now());
  under_way_.emplace(activity, id);
}

void Network::completed(const Completion& completion) {
  const auto found = under_way_.find(completion.activity);
  REHEARSE_CHECK(found != under_way_.end(), "physics completed what it was not given");
  const AirId id = found->second;
  under_way_.erase(found);
  arrives(id);
}

void Network::arrives(AirId id) {
  InAir& item = air(id);
  if (item.notice) return report_loss(id);
  if (!item.queued) return deliver(id);
  item.ready = true;
  drain(item.to, item.place, item.lane);
}

void Network::drain(StationId to, std::uint32_t place, Lane lane) {
  const auto found = queues_.find({to, place, lane});
  if (found == queues_.end()) return;
  const Time last = stations_[to].peers[place].last_arrival[static_cast<int>(lane)];
  if (last > agenda_.now()) {
    return agenda_.call(last, [this, to, place, lane] { drain(to, place, lane); });
  }
  std::deque<AirId>& queue = found->second;
  while (!queue.empty() && air(queue.front()).ready) {
    const AirId id = queue.front();
    queue.pop_front();
    // A notice of loss looks at this; nothing that is delivered makes the queue grow.
    stations_[to].peers[place].queued[static_cast<int>(lane)] = !queue.empty();
    deliver(id);
  }
  if (queue.empty()) queues_.erase(found);
}

void Network::deliver(AirId id) {
  const InAir& item = air(id);
  if (item.notice) return report_loss(id);  // it had to wait for a lane
  Station& to = stations_[item.to];
  to.peers[item.place].unacknowledged_bytes -= item.size_bytes;
  if (to.open) return put_into_inbox(to, id);
  const StationId lost = item.to;
  const StationId from = item.from;
  free_slot(id);
  if (!stations_[lost].silent) announce_loss(lost, from);
}

void Network::put_into_inbox(Station& station, AirId id) {
  air(id).next = Station::kNothing;
  if (station.last_in == Station::kNothing) {
    station.first_in = id;
  } else {
    air(station.last_in).next = id;
  }
  station.last_in = id;
  scheduler_.unpark(station.receiver);
}

std::optional<Arrived> Network::take(StationId self) {
  Station& station = stations_[self];
  if (station.first_in == Station::kNothing) return std::nullopt;
  const AirId id = station.first_in;
  InAir& item = air(id);
  station.first_in = item.next;
  if (station.first_in == Station::kNothing) station.last_in = Station::kNothing;
  std::optional<Arrived> arrived(std::in_place);
  arrived->lamport = item.lamport;
  arrived->size_bytes = item.size_bytes;
  arrived->envelope.from = item.sender;
  if (item.notice) {
    const Station& lost = stations_[item.from];
    arrived->envelope.what = PeerLost{lost.cause, lost.detail};
  } else {
    arrived->envelope.what = Received{item.lane, std::move(item.message)};
  }
  free_slot(id);
  return arrived;
}

void Network::close(StationId who, LossCause cause, std::string detail, SeenAs seen_as) {
  Station& station = stations_[who];
  if (!station.open) return;
  station.open = false;
  station.cause = cause;
  station.detail = std::move(detail);
  station.silent = seen_as == SeenAs::silent;
  while (station.first_in != Station::kNothing) {
    free_slot(std::exchange(station.first_in, air(station.first_in).next));
  }
  station.last_in = Station::kNothing;
  scheduler_.unpark(station.receiver);
  if (station.silent) return;
  for (const Peer& peer : station.peers.all()) announce_loss(who, peer.id);
  for (StationId peer : station.sent_to) announce_loss(who, peer);
}

void Network::announce_loss(StationId lost, StationId to) {
  if (lost == to || !stations_[to].open) return;
  const std::uint32_t place = place_of(to, lost);
  Peer& peer = stations_[to].peers[place];
  if (std::exchange(peer.loss_due, true)) return;
  const AirId id = take_slot();
  InAir& notice = air(id);
  notice.from = lost;
  notice.to = to;
  notice.sender = stations_[lost].address;
  notice.place = place;
  notice.notice = true;
  agenda_.arrival(agenda_.now() + physics_.latency(stations_[lost].host, stations_[to].host), id);
}

// Behind the last message of both lanes.
void Network::report_loss(AirId notice) {
  const InAir& item = air(notice);
  Station& station = stations_[item.to];
  if (!station.open) return free_slot(notice);
  Peer& peer = station.peers[item.place];
  for (int lane = 0; lane < kLanes; ++lane) {
    if (peer.queued[lane]) {
      air(notice).lane = static_cast<Lane>(lane);
      air(notice).ready = true;
      return enqueue(notice, peer);
    }
    if (peer.last_arrival[lane] > agenda_.now()) {
      return agenda_.arrival(peer.last_arrival[lane], notice);
    }
  }
  peer.lost = true;
  put_into_inbox(station, notice);
}

bool Network::knows_lost(StationId self, StationId peer) {
  if (stations_[peer].open) return false;
  Peers& peers = stations_[self].peers;
  const std::uint32_t place = peers.place_of(peer);
  return place != Peers::kNone && peers[place].lost;
}

std::size_t Network::unacknowledged_bytes(StationId self, StationId peer) {
  Peers& peers = stations_[peer].peers;
  const std::uint32_t place = peers.place_of(self);
  return place == Peers::kNone ? 0 : peers[place].unacknowledged_bytes;
}

}  // namespace rehearse::virtual_world
