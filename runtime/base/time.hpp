#pragma once

#include <chrono>
#include <string>

namespace rehearse {

/// World time: nanoseconds since the job began. Its own clock, so that nothing of the system's
/// clocks mixes with it by accident. It has no `now()`: only a `Clock` of the seam knows the time.
struct WorldClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<WorldClock>;
  static constexpr bool is_steady = true;
};
using Duration = WorldClock::duration;
using Time = WorldClock::time_point;

/// As a deadline: for ever. Only where a user asked for it.
inline constexpr Time kNever = Time::max();

/// `from + length`, or `kNever` where that would overflow or `length` is `Duration::max()`.
inline Time after(Time from, Duration length) {
  return length >= kNever - from ? kNever : from + length;
}

/// "1.5s", "250ms", "40us", "7ns"; what a scenario file would write. "never" for `Duration::max()`.
std::string format_duration(Duration duration);

}  // namespace rehearse
