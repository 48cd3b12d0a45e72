#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/ids.hpp"
#include "runtime/virtual/agenda.hpp"
#include "runtime/virtual/physics.hpp"
#include "runtime/world/message.hpp"

namespace rehearse::virtual_world {

/// An endpoint's number in its network.
using StationId = std::uint32_t;

/// A set of stations: a bit each, up to the highest in it. There is one for each station, and with
/// thousands that all talk to each other it has to stay in the caches.
class StationSet {
 public:
  bool contains(StationId id) const {
    return id / 64 < words_.size() && (words_[id / 64] >> id % 64 & 1) != 0;
  }
  /// False if it was there before.
  bool insert(StationId id) {
    if (contains(id)) return false;
    if (id / 64 >= words_.size()) words_.resize(id / 64 + 1);
    words_[id / 64] |= std::uint64_t{1} << id % 64;
    return true;
  }
  void prefetch(StationId id) const {
    if (id / 64 < words_.size()) __builtin_prefetch(&words_[id / 64]);
  }
  /// Ascending.
  std::vector<StationId> all() const;

 private:
  std::vector<std::uint64_t> words_;
};

/// From one station to another, while something of it is in the air.
struct Channel {
  /// By lane: of what is in the air by itself. Nothing later may come before it.
  Time last_arrival[kLanes] = {};
  std::size_t unacknowledged_bytes = 0;
  std::uint32_t in_air = 0;  ///< messages, and notices that wait behind them
  StationId from = 0;
  StationId to = 0;
  std::uint32_t next = 0;    ///< with the same hash
  bool queued[kLanes] = {};  ///< by lane: messages wait behind a transfer
};

/// Channels that are in use. What has arrived leaves nothing that later messages need, so there are
/// as many as messages in the air at most, not one for each pair that has ever talked.
class Channels {
 public:
  using Id = std::uint32_t;
  static constexpr Id kNone = static_cast<Id>(-1);

  Id find(StationId from, StationId to) const;  ///< kNone: nothing is in the air
  Id get(StationId from, StationId to);         ///< made if there is none
  void forget(Id id);
  /// Good until the next `get`.
  Channel& operator[](Id id) { return channels_[id]; }
  const Channel& operator[](Id id) const { return channels_[id]; }
  /// Soon to be used.
  void prefetch(Id id) const { __builtin_prefetch(&channels_[id]); }
  void prefetch(StationId from, StationId to) const {
    if (!buckets_.empty()) __builtin_prefetch(&buckets_[home(from, to)]);
  }

 private:
  std::size_t home(StationId from, StationId to) const;
  void link(Id id);
  void grow();

  std::vector<Channel> channels_;
  std::vector<Id> free_;     // the one that was used last comes next: it is in the caches
  std::vector<Id> buckets_;  // the first of each hash; a power of two, twice as many as channels
};

/// What every sender looks at of an endpoint: small, so that those of thousands stay in the caches.
struct Face {
  Address address;
  HostId host = 0;
  bool open = true;
};

/// What else the network knows of an endpoint.
struct alignas(64) Station {
  AirId first_in = kNothing;  ///< inbox, linked through the messages
  AirId last_in = kNothing;
  TaskId receiver;
  StationSet met;       ///< who has sent to it or was sent to: they watch each other
  StationSet loss_due;  ///< of whose loss it will be told, or was
  StationSet lost;      ///< of whose loss it was told
  bool silent = false;  ///< closed, but nobody is told
  LossCause cause = LossCause::unknown;
  std::string name;
  std::string detail;

  static constexpr AirId kNothing = static_cast<AirId>(-1);
};

}  // namespace rehearse::virtual_world
