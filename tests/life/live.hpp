#pragma once

#include <string>
#include <vector>

#include "runtime/world/outcome.hpp"
#include "tests/life/script.hpp"
#include "tests/programs/job_fixture.hpp"

namespace rehearse::life {

/// Runs scripts one after another in one job, beside the model. Each line that does not do what the
/// model says is told, and so is everything that is left over or waits in vain. Empty: all is well.
/// REQUIRES: only the last one may have a death, only a single one may have one without a line; all
/// have the weather of the first.
std::string differences(programs::In world, const std::vector<Script>& scripts);

}  // namespace rehearse::life
