#pragma once

#include <map>
#include <set>
#include <string>

#include "runtime/rpc/agent.hpp"
#include "runtime/world/world.hpp"

namespace rehearse {

/// The end of a job: a worker whose program has returned serves the others until all have returned
/// or are lost. The lowest rank that lives gathers; if it is lost, the next one does. Who gathers
/// also compares on what the others compute: gradients are comparable bit for bit only on CPUs of
/// one class.
class Finish {
 public:
  /// `cpu_class`: which of torch's kernels this worker uses, "AVX2".
  Finish(World& world, rpc::Agent& agent, std::string cpu_class);

  /// Waits for the others, at most `Limits::finish`. Throws Error{timed_out} that names who is
  /// missing; Error{bad_argument} where gradients are compared and a worker's CPU is of another
  /// class.
  void wait();

 private:
  void tell(std::uint16_t gatherer);
  void gather();
  void on_finished(std::uint16_t from, const Message& message);
  void release_all();
  void check_classes() const;
  void on_join(std::uint16_t from);
  void wake();
  /// The lowest rank not known to be lost.
  int gatherer() const;
  std::set<int> missing() const;

  World& world_;
  rpc::Agent& agent_;
  std::string cpu_class_;
  std::map<std::uint16_t, std::string> other_classes_;
  bool returned_ = false;  ///< this worker's program
  bool released_ = false;
  bool gathering_ = false;
  std::set<std::uint16_t> finished_, told_, asked_by_;
  TaskId waiter_;
};

}  // namespace rehearse
