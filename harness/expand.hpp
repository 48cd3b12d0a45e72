#pragma once

#include <string>

#include "harness/scenario.hpp"

namespace rehearse::harness {

/// The scenario as a file of its own: overrides and seed applied, defaults filled in, one world. It
/// parses to the same scenario, whatever the defaults of later versions.
std::string expanded(const Scenario& scenario, WorldKind world);

}  // namespace rehearse::harness
