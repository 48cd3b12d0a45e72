#include "runtime/virtual/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/check.hpp"

namespace rehearse::virtual_world {

StationId Network::add(const Address& address, std::string name, HostId host) {
  const auto id = static_cast<StationId>(stations_.size());
  faces_.push_back({address, host, true});
  stations_.emplace_back();
  stations_.back().name = std::move(name);
  if (by_worker_.size() <= address.worker) by_worker_.resize(address.worker + std::size_t{1});
  auto& endpoints = by_worker_[address.worker];
  REHEARSE_CHECK(endpoints.size() == address.endpoint, "endpoints are numbered as they are added");
  endpoints.push_back(id);
  return id;
}

// Looked at one after the other they would be waited for one after the other.
void Network::fetch_for(StationId from, const Address& to) const {
  if (to.worker < faces_.size()) __builtin_prefetch(&faces_[to.worker]);
  channels_.prefetch(from, to.worker);
  stations_[from].met.prefetch(to.worker);
}

std::optional<StationId> Network::find(const Address& address) const {
  // Workers' own endpoints come first, so most addresses are their own index.
  const StationId own = address.worker;
  if (own < faces_.size() && faces_[own].address == address) return own;
  if (address.worker >= by_worker_.size()) return std::nullopt;
  const auto& endpoints = by_worker_[address.worker];
  if (address.endpoint >= endpoints.size()) return std::nullopt;
  const StationId id = endpoints[address.endpoint];
  if (faces_[id].address.job != address.job) return std::nullopt;
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
      channels_.prefetch(item.channel);
      return scheduler_.prefetch(stations_[item.to].receiver);
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
  item.channel = channels_.get(from, to);
  Channel& channel = channels_[item.channel];
  ++channel.in_air;
  channel.unacknowledged_bytes += item.size_bytes;
  meet(from, to);
  if (at <= agenda_.now()) {
    departs(id);
  } else {
    agenda_.departure(at, id);
  }
}

void Network::meet(StationId from, StationId to) {
  if (stations_[from].met.insert(to)) stations_[to].met.insert(from);
}

// The last one that leaves takes the channel with it.
void Network::leave_channel(const InAir& item) {
  Channel& channel = channels_[item.channel];
  channel.unacknowledged_bytes -= item.size_bytes;
  if (--channel.in_air == 0) channels_.forget(item.channel);
}

void Network::departs(AirId id) {
  InAir& item = air(id);
  if (!faces_[item.from].open) {
    leave_channel(item);
    return free_slot(id);
  }
  Channel& channel = channels_[item.channel];
  const bool small = item.size_bytes < physics_.small_below_bytes();
  if (small && !channel.queued[lane_of(item)]) return start_small(id, channel);
  enqueue(id, channel);
  if (small) {
    start_small(id, channel);
  } else if (item.extra > Duration::zero()) {
    agenda_.call(agenda_.now() + item.extra, [this, id] { start_transfer(id); });
  } else {
    start_transfer(id);
  }
}

void Network::enqueue(AirId id, Channel& channel) {
  InAir& item = air(id);
  item.queued = true;
  channel.queued[lane_of(item)] = true;
  queues_[{item.channel, item.lane}].push_back(id);
}

void Network::start_small(AirId id, Channel& channel) {
  const InAir& item = air(id);
  Time at = physics_.small_arrival(faces_[item.from].host, faces_[item.to].host, item.size_bytes,
                                   agenda_.now());
  at += item.extra;
  Time& last = channel.last_arrival[lane_of(item)];
  if (!item.queued) at = last = std::max(at, last);
  agenda_.arrival(at, id, item.to);
}

void Network::start_transfer(AirId id) {
  const InAir& item = air(id);
  const ActivityId activity = physics_.start_transfer(faces_[item.from].host, faces_[item.to].host,
                                                      item.size_bytes, agenda_.now());
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
  if (!item.queued) return deliver(id);
  item.ready = true;
  drain(item.channel, item.lane);
}

void Network::drain(Channels::Id id, Lane lane) {
  const auto found = queues_.find({id, lane});
  if (found == queues_.end()) return;
  const Time last = channels_[id].last_arrival[static_cast<int>(lane)];
  if (last > agenda_.now()) {
    return agenda_.call(last, [this, id, lane] { drain(id, lane); });
  }
  std::deque<AirId>& queue = found->second;
  while (!queue.empty() && air(queue.front()).ready) {
    const AirId first = queue.front();
    queue.pop_front();
    // A notice of loss looks at this; nothing that is delivered makes the queue grow. The channel
    // lives as long as something waits in it.
    channels_[id].queued[static_cast<int>(lane)] = !queue.empty();
    deliver(first);
  }
  if (queue.empty()) queues_.erase(found);
}

void Network::deliver(AirId id) {
  const InAir& item = air(id);
  leave_channel(item);
  const StationId from = item.from;
  const StationId to = item.to;
  if (!item.notice && faces_[to].open) return put_into_inbox(stations_[to], id);
  const bool notice = item.notice;  // it had to wait for a lane
  free_slot(id);
  if (notice) {
    report_loss(from, to);
  } else if (!stations_[to].silent) {
    announce_loss(to, {from});
  }
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

// What a receiver takes after this message, and what belongs to the one after that.
void Network::fetch_ahead(AirId next) {
  if (next == Station::kNothing) return;
  const InAir& item = air(next);
  __builtin_prefetch(item.message.header.data());
  __builtin_prefetch(item.message.payloads.data());
  if (item.next == Station::kNothing) return;
  const auto* after = reinterpret_cast<const char*>(&air(item.next));
  for (std::size_t line = 0; line < sizeof(InAir); line += 64) __builtin_prefetch(after + line);
}

std::optional<Arrived> Network::take(StationId self) {
  Station& station = stations_[self];
  if (station.first_in == Station::kNothing) return std::nullopt;
  const AirId id = station.first_in;
  InAir& item = air(id);
  station.first_in = item.next;
  if (station.first_in == Station::kNothing) station.last_in = Station::kNothing;
  fetch_ahead(station.first_in);
  std::optional<Arrived> arrived(std::in_place);
  arrived->lamport = item.lamport;
  arrived->size_bytes = item.size_bytes;
  arrived->envelope.from = faces_[item.from].address;
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
  if (!std::exchange(faces_[who].open, false)) return;
  station.cause = cause;
  station.detail = std::move(detail);
  station.silent = seen_as == SeenAs::silent;
  while (station.first_in != Station::kNothing) {
    free_slot(std::exchange(station.first_in, air(station.first_in).next));
  }
  station.last_in = Station::kNothing;
  scheduler_.unpark(station.receiver);
  if (station.silent) return;
  announce_loss(who, station.met.all());
}

void Network::announce_loss(StationId lost, const std::vector<StationId>& to) {
  std::map<Duration, std::vector<StationId>> by_latency;  // thousands hear of it at one instant
  for (const StationId peer : to) {
    if (peer == lost || !faces_[peer].open || !stations_[peer].loss_due.insert(lost)) continue;
    by_latency[physics_.latency(faces_[lost].host, faces_[peer].host)].push_back(peer);
  }
  for (auto& [latency, peers] : by_latency) {
    agenda_.call(agenda_.now() + latency, [this, lost, peers = std::move(peers)] {
      for (const StationId peer : peers) report_loss(lost, peer);
    });
  }
}

// Behind the last message of both lanes.
void Network::report_loss(StationId lost, StationId to) {
  if (!faces_[to].open) return;
  const Channels::Id id = channels_.find(lost, to);
  for (int lane = 0; lane < kLanes && id != Channels::kNone; ++lane) {
    Channel& channel = channels_[id];
    if (channel.queued[lane]) {
      const AirId notice = notice_of(lost, to);
      air(notice).lane = static_cast<Lane>(lane);
      air(notice).ready = true;
      air(notice).channel = id;
      ++channel.in_air;
      return enqueue(notice, channel);
    }
    if (channel.last_arrival[lane] > agenda_.now()) {
      return agenda_.call(channel.last_arrival[lane], [this, lost, to] { report_loss(lost, to); });
    }
  }
  stations_[to].lost.insert(lost);
  put_into_inbox(stations_[to], notice_of(lost, to));
}

AirId Network::notice_of(StationId lost, StationId to) {
  const AirId id = take_slot();
  InAir& notice = air(id);
  notice.from = lost;
  notice.to = to;
  notice.notice = true;
  return id;
}

bool Network::knows_lost(StationId self, StationId peer) const {
  return !faces_[peer].open && stations_[self].lost.contains(peer);
}

std::size_t Network::unacknowledged_bytes(StationId self, StationId peer) const {
  const Channels::Id id = channels_.find(self, peer);
  return id == Channels::kNone ? 0 : channels_[id].unacknowledged_bytes;
}

}  // namespace rehearse::virtual_world
