#pragma once

#include <functional>
#include <string>

#include "runtime/virtual/physics.hpp"
#include "sim/platform.hpp"

namespace rehearse::sim {

/// Creates SimGrid's engine with `cluster`, and runs `body` in its only actor. `body` runs a whole
/// virtual job on the physics it is given, which is that of SimGrid: flows share links (max-min
/// fair, without TCP corrections or cross traffic). An exception of `body` comes out here.
///
/// One simulation per process, since SimGrid's clock cannot start again: throws
/// Error{cannot_start} at the second call; fork for each run.
/// REQUIRES: no other SimGrid engine in this process; 8 MiB of stack suffice for `body` (tasks have
/// their own).
void run_under_simgrid(const ClusterSpec& cluster,
                       const std::function<void(virtual_world::Physics&)>& body);

/// What a report says about the model: "SimGrid 3.32, CM02, …".
std::string describe_model();

}  // namespace rehearse::sim
