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

/// What an end knows of another that has sent to it, or of whose loss it is told. Small: there is
/// one for each pair that talks.
struct Peer {
  /// By lane: of what is in the air by itself. Nothing later may come before it.
  Time last_arrival[kLanes] = {};
  std::size_t unacknowledged_bytes = 0;  ///< in the air from there to here
  StationId id = 0;
  bool lost = false;         ///< this end has been told
  bool loss_due = false;     ///< this end will be told
  bool queued[kLanes] = {};  ///< by lane: messages wait behind a transfer
};

/// Peers by number. Kept in the order of first contact, so that walking over them is the same in
/// every run; found by hashing. A place stays what it is.
class Peers {
 public:
  static constexpr std::uint32_t kNone = static_cast<std::uint32_t>(-1);

  std::uint32_t place_of(StationId id) const;  ///< kNone: not known
  std::uint32_t add(StationId id);             ///< REQUIRES: not known
  Peer& operator[](std::uint32_t place) { return peers_[place]; }
  /// Soon to be used.
  void prefetch(std::uint32_t place) const { __builtin_prefetch(&peers_[place]); }
  const std::vector<Peer>& all() const { return peers_; }

 private:
  std::size_t probe(StationId id) const;
  void grow();

  std::vector<Peer> peers_;
  struct Entry {
    StationId id = 0;
    std::uint32_t place_plus_1 = 0;  // 0: free
  };
  std::vector<Entry> table_;
};

/// An endpoint as the network sees it.
struct Station {
  Address address;
  HostId host = 0;
  AirId first_in = kNothing;  ///< inbox, linked through the messages
  AirId last_in = kNothing;
  bool open = true;
  bool silent = false;  ///< closed, but nobody is told
  LossCause cause = LossCause::unknown;
  TaskId receiver;
  Peers peers;                     ///< who has sent to it
  std::vector<StationId> sent_to;  ///< each once
  std::string name;
  std::string detail;

  static constexpr AirId kNothing = static_cast<AirId>(-1);
};

}  // namespace rehearse::virtual_world
