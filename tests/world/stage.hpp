#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/world/fault_plan.hpp"
#include "runtime/world/outcome.hpp"
#include "runtime/world/world.hpp"

namespace rehearse {

/// One world as the conformance suite sees it: workers with bodies, faults, what they leave on
/// disk. A body may run in a process of its own: what it finds out it puts on its worker's disk.
class Stage {
 public:
  virtual ~Stage() = default;

  /// Ranks are given in the order of adding; each worker is on a host of its own where that
  /// matters.
  virtual void add(std::string worker, std::function<void(World&)> body) = 0;
  virtual void fault(FaultSpec fault) = 0;

  /// Once, after all is added.
  virtual RunOutcome run() = 0;

  /// What `worker` has put under `object`; empty if nothing.
  virtual std::string left(const std::string& worker, const std::string& object) = 0;
};

using MakeStage = std::function<std::unique_ptr<Stage>()>;

}  // namespace rehearse
