#pragma once

#include <string>
#include <vector>

#include "harness/case.hpp"
#include "runtime/base/result.hpp"

namespace rehearse::cli {

/// Writes each case's scenario as it was run (overrides, seed and defaults applied) into a folder
/// beside the report: `report.json` has `report.cases/quickstart.sim.toml`. Sets `expanded_file`.
/// Does nothing for a report to standard output or to what is no regular file.
Status write_expanded(const std::string& report, std::vector<harness::CaseResult>& results);

}  // namespace rehearse::cli
