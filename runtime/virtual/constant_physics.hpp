#pragma once

#include <map>
#include <set>
#include <utility>

#include "runtime/virtual/physics.hpp"

namespace rehearse::virtual_world {

struct ConstantPhysicsOptions {
  Duration latency = std::chrono::microseconds(10);
  Duration latency_within_host = std::chrono::microseconds(1);
  std::int64_t bandwidth_bytes_per_s = 1'250'000'000;
  std::int64_t speed_flops_per_s = 50'000'000'000;
  std::int64_t memory_bytes_per_s = 20'000'000'000;
  std::size_t small_below_bytes = 16 << 10;
};

/// Every message takes latency + size / bandwidth, every computation the larger of flops / speed
/// and bytes / memory bandwidth, whatever else is under way. Hosts and links neither fail nor slow
/// down.
class ConstantPhysics final : public Physics {
 public:
  explicit ConstantPhysics(const ConstantPhysicsOptions& options = {}) : options_(options) {}

  Time small_arrival(HostId from, HostId to, std::size_t size_bytes, Time now) override;
  std::size_t small_below_bytes() const override { return options_.small_below_bytes; }
  ActivityId start_transfer(HostId from, HostId to, std::size_t size_bytes, Time now) override;
  void cancel(ActivityId activity) override;
  Duration duration(HostId host, const Cost& cost) const override;
  Duration latency(HostId from, HostId to) const override;
  void set_host(HostId, bool, double) override {}
  void set_link(HostId, HostId, bool, double, Duration) override {}
  Time next(Time until, std::vector<Completion>& completions) override;

 private:
  ConstantPhysicsOptions options_;
  std::set<std::pair<Time, ActivityId>> under_way_;
  std::map<ActivityId, Time> ends_;
  std::uint64_t last_activity_ = 0;
};

}  // namespace rehearse::virtual_world
