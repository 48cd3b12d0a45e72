#pragma once

#include <cstddef>
#include <simgrid/s4u.hpp>
#include <vector>

#include "runtime/virtual/physics.hpp"

namespace rehearse::sim {

/// The flows that SimGrid is at, and SimGrid's clock. The clock may lag behind the world's while no
/// flow can end: a simulator call for every small message would cost more than the message.
class Flows {
 public:
  struct Flow {
    virtual_world::ActivityId id;
    virtual_world::HostId from = 0;
    virtual_world::HostId to = 0;
    Time earliest_end{};  ///< if it had all links to itself
  };
  struct Ended {
    Flow flow;
    bool failed = false;
  };

  Flows() = default;
  ~Flows();
  Flows(const Flows&) = delete;
  Flows& operator=(const Flows&) = delete;

  /// `comm` has started. REQUIRES: the clock was brought to now by `catch_up` before.
  void add(const Flow& flow, simgrid::s4u::CommPtr comm);
  /// Stops `flows()[index]`. REQUIRES: as `add`.
  void cancel(std::size_t index);

  /// Brings the clock to `until`, or to the end of the nanosecond in which the first flow ends.
  /// Appends those that end in it and returns the time reached. Without a flow that could end by
  /// then it returns `until` at once, and the clock lags behind.
  Time run(Time until, std::vector<Ended>& ended);
  /// Brings the clock to `until` in any case, and appends all that end by then: what a caller that
  /// starts or stops a flow needs.
  void catch_up(Time until, std::vector<Ended>& ended);

  const std::vector<Flow>& flows() const { return flows_; }

 private:
  bool could_end_by(Time until) const;
  Time wait_for_first(Time until, std::vector<Ended>& ended);
  Ended take(std::size_t index, bool failed);
  std::size_t failed_index() const;
  bool wait(Time until, std::vector<Ended>& ended);

  std::vector<Flow> flows_;
  std::vector<simgrid::s4u::CommPtr> comms_;  // of the flow at the same index
};

}  // namespace rehearse::sim
