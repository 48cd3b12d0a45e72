#pragma once

#include <map>
#include <set>
#include <string>

#include "runtime/rpc/agent.hpp"
#include "runtime/world/world.hpp"

namespace rehearse {

/// The end of a job: a worker whose program has returned serves the others until all have returned
/// or are lost. The lowest rank that lives gathers; if it is lost, the next one does.
class Finish {
 public:
  Finish(World& world, rpc::Agent& agent);

  /// Waits for the others, at most `Limits::finish`. Throws Error{timed_out} that names who is
  /// missing.
  void wait();

 private:
  void tell(std::uint16_t gatherer);
  void gather();
  void on_finished(std::uint16_t from);
  void on_join(std::uint16_t from);
  void wake();
  /// The lowest rank not known to be lost.
  int gatherer() const;
  std::set<int> missing() const;

  World& world_;
  rpc::Agent& agent_;
  bool returned_ = false;  ///< this worker's program
  bool released_ = false;
  bool gathering_ = false;
  std::set<std::uint16_t> finished_, told_, asked_by_;
  TaskId waiter_;
};

}  // namespace rehearse
