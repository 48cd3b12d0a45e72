#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/ids.hpp"
#include "runtime/virtual/agenda.hpp"
#include "runtime/virtual/physics.hpp"
#include "runtime/world/message.hpp"

namespace rehearse::virtual_world {

/// An endpoint's number in its network.
using StationId = std::uint32_t;

/// What comes from one peer on one lane.
struct LaneIn {
  Time last_arrival{};  ///< of what is in the air by itself: nothing later may come before it
  /// Messages behind a transfer, which first; null: none since ever.
  std::unique_ptr<std::deque<AirId>> queue;

  bool queued() const { return queue && !queue->empty(); }
};

/// One end's knowledge of another with which it has talked.
struct Peer {
  StationId id = 0;
  bool lost = false;      ///< it has been told
  bool loss_due = false;  ///< it will be told
  std::size_t unacknowledged_bytes = 0;
  LaneIn lanes[kLanes];
};

/// Peers by number. Kept in the order of first contact, so that walking over them is the same in
/// every run; found by hashing.
class Peers {
 public:
  Peer* find(StationId id);
  Peer& at_or_new(StationId id);
  std::vector<Peer>& all() { return peers_; }

 private:
  std::size_t place_of(StationId id) const;
  void grow();

  std::vector<Peer> peers_;
  std::vector<std::uint32_t> table_;  // index + 1; 0: free
};

/// An endpoint as the network sees it.
struct Station {
  Address address;
  std::string name;
  HostId host = 0;
  bool open = true;
  bool silent = false;  ///< closed, but nobody is told
  LossCause cause = LossCause::unknown;
  std::string detail;
  TaskId receiver;
  AirId first_in = kNothing;  ///< inbox, linked through the messages
  AirId last_in = kNothing;
  Peers peers;

  static constexpr AirId kNothing = static_cast<AirId>(-1);
};

}  // namespace rehearse::virtual_world
