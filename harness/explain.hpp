#pragma once

#include <string>

#include "harness/scenario.hpp"

namespace rehearse::harness {

/// The plan of a scenario in words: machines, job, faults and when they strike, what is
/// checked (also what the file leaves out), and the deadlines that apply.
std::string explain(const Scenario& scenario, const Catalogue& catalogue);

}  // namespace rehearse::harness
