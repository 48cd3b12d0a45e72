#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/fiber/scheduler.hpp"
#include "runtime/virtual/agenda.hpp"
#include "runtime/virtual/physics.hpp"
#include "runtime/virtual/station.hpp"
#include "runtime/world/fault_plan.hpp"
#include "runtime/world/net.hpp"

namespace rehearse::virtual_world {

/// What a receiver takes out.
struct Arrived {
  Envelope envelope;
  std::uint64_t lamport = 0;
  std::size_t size_bytes = 0;
};

/// All endpoints of a job and what is in the air between them. Decides what arrives and in which
/// order; physics decides when. Channels are ideal: nothing is dropped or damaged in the air.
class Network final : public Agenda::Handler {
 public:
  Network(fiber::Scheduler& scheduler, Physics& physics, Agenda& agenda)
      : scheduler_(scheduler), physics_(physics), agenda_(agenda) {}

  StationId add(const Address& address, std::string name, HostId host);
  const Station& station(StationId id) const { return stations_[id]; }
  const Address& address(StationId id) const { return faces_[id].address; }
  /// Of its worker's `endpoint`; none: nothing has that address.
  std::optional<StationId> find(const Address& address) const;

  /// Soon something will be sent.
  void fetch_for(StationId from, const Address& to) const;
  /// Leaves `from` at `at`, unless `from` is closed before; takes `extra` longer than physics says.
  void send(StationId from, StationId to, Lane lane, Message message, std::uint64_t lamport,
            Time at, Duration extra);

  /// Nothing leaves `who` any more and it hears nothing. What is in the air still arrives, then,
  /// one latency from now at the earliest, its peers learn it; or never, if `silent`.
  void close(StationId who, LossCause cause, std::string detail, SeenAs seen_as);

  bool knows_lost(StationId self, StationId peer) const;
  std::size_t unacknowledged_bytes(StationId self, StationId peer) const;

  /// The first of what `self` has not taken yet.
  std::optional<Arrived> take(StationId self);
  /// Who is woken by the next arrival at `self`, and when it is closed.
  void set_receiver(StationId self, TaskId task) { stations_[self].receiver = task; }

  /// Transfers that physics is at.
  bool transfers() const { return !under_way_.empty(); }
  void completed(const Completion& completion);

  void departs(AirId message) override;
  void arrives(AirId message) override;
  void comes_up(AirId message, int stage) override;

 private:
  struct alignas(64) InAir {
    StationId from = 0;
    StationId to = 0;
    Lane lane = Lane::control;
    bool notice = false;  // of a loss; no message
    bool queued = false;  // behind a transfer, or one itself
    bool ready = false;   // of queued ones: physics is done with it
    AirId next = Station::kNothing;
    Channels::Id channel = Channels::kNone;
    std::size_t size_bytes = 0;
    std::uint64_t lamport = 0;
    Duration extra{};
    Message message;
  };

  static constexpr AirId kChunk = 1024;

  AirId take_slot();
  void free_slot(AirId id);
  static int lane_of(const InAir& item) { return static_cast<int>(item.lane); }
  InAir& air(AirId id) { return air_[id / kChunk][id % kChunk]; }
  void enqueue(AirId id, Channel& channel);
  void start_small(AirId id, Channel& channel);
  void start_transfer(AirId id);
  void meet(StationId from, StationId to);
  void leave_channel(const InAir& item);
  void drain(Channels::Id channel, Lane lane);
  void deliver(AirId id);
  void put_into_inbox(Station& station, AirId id);
  void fetch_ahead(AirId next);
  void announce_loss(StationId lost, const std::vector<StationId>& to);
  void report_loss(StationId lost, StationId to);
  AirId notice_of(StationId lost, StationId to);

  fiber::Scheduler& scheduler_;
  Physics& physics_;
  Agenda& agenda_;
  std::vector<Face> faces_;  // by station
  std::vector<Station> stations_;
  std::vector<std::vector<StationId>> by_worker_;  // worker slot, endpoint
  std::vector<std::unique_ptr<InAir[]>> air_;      // chunks: a message stays where it is
  Channels channels_;
  std::map<std::pair<Channels::Id, Lane>, std::deque<AirId>> queues_;
  std::vector<AirId> free_slots_;
  std::map<ActivityId, AirId> under_way_;
};

}  // namespace rehearse::virtual_world
