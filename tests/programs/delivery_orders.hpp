#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/virtual/physics.hpp"

/// Runs a job once for every order in which its messages can arrive.
namespace rehearse::programs {

/// What may happen next: a message arrives, or what is due in time does (a loss is told).
struct Happening {
  bool time_passes = false;
  virtual_world::HostId to = 0;
  virtual_world::HostId from = 0;
  std::uint64_t nth = 0;  ///< among those of the two hosts
  auto operator<=>(const Happening&) const = default;
};

/// A depth-first search over the choices of runs, each made again from its beginning. Of orders
/// that differ only in arrivals at different workers next to each other, which no worker can tell
/// apart, it takes one (sleep sets).
class DeliveryOrders {
 public:
  /// The next happening of this run. `possible` is sorted, and not empty.
  Happening choose(const std::vector<Happening>& possible);
  /// Until it is on, and when it is off again, the first that is possible happens. On at first.
  void set_choosing(bool on) { choosing_ = on; }
  /// After a run: whether there is another order to try.
  bool next();
  /// This run was one that an earlier one stands for.
  bool repeated() const { return repeated_; }
  /// What was chosen in this run, to try again by hand.
  std::string text() const;

 private:
  struct Fork {
    std::vector<Happening> possible;
    std::size_t chosen = 0;
    std::set<Happening> asleep;  ///< need not come first here: tried before, and nothing between
  };
  void fork(const std::vector<Happening>& possible);
  static bool advance(Fork& fork, std::size_t from);

  std::vector<Fork> forks_;
  std::size_t depth_ = 0;
  bool choosing_ = true;
  bool repeated_ = false;
};

/// Messages take no time; `orders` says which of those in the air arrives.
class ChosenPhysics final : public virtual_world::Physics {
 public:
  explicit ChosenPhysics(DeliveryOrders& orders) : orders_(orders) {}

  Time small_arrival(virtual_world::HostId, virtual_world::HostId, std::size_t, Time now) override {
    return now;
  }
  std::size_t small_below_bytes() const override { return 0; }
  virtual_world::ActivityId start_transfer(virtual_world::HostId from, virtual_world::HostId to,
                                           std::size_t size_bytes, Time now) override;
  void cancel(virtual_world::ActivityId activity) override;
  Duration duration(virtual_world::HostId, const Cost&) const override { return {}; }
  Duration latency(virtual_world::HostId, virtual_world::HostId) const override { return kSoon; }
  void set_host(virtual_world::HostId, bool, double) override {}
  void set_link(virtual_world::HostId, virtual_world::HostId, bool, double, Duration) override {}
  Time next(Time until, std::vector<virtual_world::Completion>& completions) override;

 private:
  /// How long a loss is on its way: it may be told before or after any message. Deadlines are far
  /// beyond.
  static constexpr Duration kSoon = std::chrono::nanoseconds(1);

  DeliveryOrders& orders_;
  std::map<Happening, virtual_world::ActivityId> in_air_;
  std::map<std::pair<virtual_world::HostId, virtual_world::HostId>, std::uint64_t> sent_;
  std::uint64_t last_activity_ = 0;
  Time now_{};
};

}  // namespace rehearse::programs
