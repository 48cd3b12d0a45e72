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
    if (!table_.empty()) __builtin_prefetch(&table_[home(from, to)]);
  }

 private:
  std::size_t home(StationId from, StationId to) const;
  std::size_t probe(StationId from, StationId to) const;
  void grow();

  struct Entry {
    StationId from = 0;
    StationId to = 0;
    Id id = kNone;  // free
  };
  std::vector<Channel> channels_;
  std::vector<Id> free_;
  std::vector<Entry> table_;  // open addressing; a power of two, at most half full
};

/// An endpoint as the network sees it.
struct alignas(64) Station {
  Address address;
  HostId host = 0;
  AirId first_in = kNothing;  ///< inbox, linked through the messages
  AirId last_in = kNothing;
  bool open = true;
  bool silent = false;  ///< closed, but nobody is told
  LossCause cause = LossCause::unknown;
  TaskId receiver;
  StationSet met;       ///< who has sent to it or was sent to: they watch each other
  StationSet loss_due;  ///< of whose loss it will be told, or was
  StationSet lost;      ///< of whose loss it was told
  std::string name;
  std::string detail;

  static constexpr AirId kNothing = static_cast<AirId>(-1);
};

}  // namespace rehearse::virtual_world
