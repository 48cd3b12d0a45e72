#include "runtime/virtual/constant_physics.hpp"

#include <algorithm>

namespace rehearse::virtual_world {
namespace {

__extension__ using Wide = __int128;  // a terabyte times a second in nanoseconds
constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;

// Integers only, rounded up: the same on every machine.
Duration time_for(std::int64_t amount, std::int64_t per_second) {
  const Wide wide = static_cast<Wide>(amount) * kNanosecondsPerSecond;
  return Duration(static_cast<std::int64_t>((wide + per_second - 1) / per_second));
}

}  // namespace

Time ConstantPhysics::small_arrival(HostId from, HostId to, std::size_t size_bytes, Time now) {
  return now + latency(from, to) +
         time_for(static_cast<std::int64_t>(size_bytes), options_.bandwidth_bytes_per_s);
}

ActivityId ConstantPhysics::start_transfer(HostId from, HostId to, std::size_t size_bytes,
                                           Time now) {
  const ActivityId id{++last_activity_};
  const Time end = small_arrival(from, to, size_bytes, now);
  under_way_.emplace(end, id);
  ends_.emplace(id, end);
  return id;
}

void ConstantPhysics::cancel(ActivityId activity) {
  const auto found = ends_.find(activity);
  if (found == ends_.end()) return;
  under_way_.erase({found->second, activity});
  ends_.erase(found);
}

Duration ConstantPhysics::duration(HostId, const Cost& cost) const {
  return std::max(time_for(cost.flops, options_.speed_flops_per_s),
                  time_for(cost.bytes, options_.memory_bytes_per_s));
}

Duration ConstantPhysics::latency(HostId from, HostId to) const {
  return from == to ? options_.latency_within_host : options_.latency;
}

Time ConstantPhysics::next(Time until, std::vector<Completion>& completions) {
  if (under_way_.empty() || under_way_.begin()->first > until) return until;
  const Time reached = under_way_.begin()->first;
  while (!under_way_.empty() && under_way_.begin()->first == reached) {
    const ActivityId id = under_way_.begin()->second;
    completions.push_back({id, false});
    ends_.erase(id);
    under_way_.erase(under_way_.begin());
  }
  return reached;
}

}  // namespace rehearse::virtual_world
