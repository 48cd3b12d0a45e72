#include "sim/flows.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/base/check.hpp"

namespace rehearse::sim {
namespace {

namespace sg = simgrid::s4u;

double seconds_until(Time time) {
  const double target = std::chrono::duration<double>(time.time_since_epoch()).count();
  constexpr double kRoundingSeconds = 1e-12;
  const double left = target - sg::Engine::get_clock();
  return left < kRoundingSeconds ? 0 : left;
}

/// The end of the nanosecond that SimGrid's clock is in. A clock that is above a whole nanosecond
/// by a rounding error only counts as being there.
Time end_of_nanosecond() {
  constexpr double kRoundingNanoseconds = 1e-3;
  const double nanoseconds = sg::Engine::get_clock() * 1e9;
  return Time(Duration(static_cast<std::int64_t>(std::ceil(nanoseconds - kRoundingNanoseconds))));
}

/// Dropping a flow that has not ended would cost 10 ms and a backtrace.
void stop(sg::CommPtr& comm) {
  comm->cancel();
  try {
    comm->wait();
  } catch (const simgrid::Exception&) {
    // That it was cancelled is what was asked for.
  }
}

}  // namespace

Flows::~Flows() {
  for (auto& comm : comms_) stop(comm);
}

void Flows::add(const Flow& flow, sg::CommPtr comm) {
  flows_.push_back(flow);
  comms_.push_back(std::move(comm));
}

void Flows::cancel(std::size_t index) {
  stop(comms_[index]);
  take(index, true);
}

Flows::Ended Flows::take(std::size_t index, bool failed) {
  Ended ended{flows_[index], failed};
  flows_[index] = flows_.back();
  flows_.pop_back();
  comms_[index] = std::move(comms_.back());
  comms_.pop_back();
  return ended;
}

bool Flows::could_end_by(Time until) const {
  return std::any_of(flows_.begin(), flows_.end(),
                     [&](const Flow& flow) { return flow.earliest_end <= until; });
}

Time Flows::run(Time until, std::vector<Ended>& ended) {
  return could_end_by(until) ? wait_for_first(until, ended) : until;
}

void Flows::catch_up(Time until, std::vector<Ended>& ended) {
  while (!flows_.empty() && seconds_until(until) > 0) wait_for_first(until, ended);
  if (const double seconds = seconds_until(until); seconds > 0) sg::this_actor::sleep_for(seconds);
}

Time Flows::wait_for_first(Time until, std::vector<Ended>& ended) {
  while (!flows_.empty() && wait(until, ended)) until = std::min(until, end_of_nanosecond());
  return until;
}

/// False if `until` came before a flow ended.
bool Flows::wait(Time until, std::vector<Ended>& ended) {
  try {
    const double timeout_s = until == kNever ? -1 : seconds_until(until);
    const ssize_t index = sg::Comm::wait_any_for(comms_, timeout_s);
    if (index < 0) return false;
    ended.push_back(take(static_cast<std::size_t>(index), false));
  } catch (const simgrid::ForcefulKillException&) {
    throw;
  } catch (const simgrid::Exception&) {
    ended.push_back(take(failed_index(), true));
  }
  return true;
}

std::size_t Flows::failed_index() const {
  const auto found = std::find_if(comms_.begin(), comms_.end(), [](const sg::CommPtr& comm) {
    return comm->get_state() != sg::Activity::State::STARTED;
  });
  REHEARSE_CHECK(found != comms_.end(), "SimGrid reported a failed flow, but all are under way");
  return static_cast<std::size_t>(found - comms_.begin());
}

}  // namespace rehearse::sim
