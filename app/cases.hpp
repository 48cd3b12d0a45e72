#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/command_line.hpp"
#include "app/scenario_files.hpp"
#include "harness/case.hpp"

namespace rehearse::cli {

/// Every file in every world asked for, `repeat` times each. `draw` gives seeds for
/// `--seed random`.
std::vector<harness::Case> expand_cases(const std::vector<LoadedScenario>& files,
                                        const RunOptions& options,
                                        const harness::Catalogue& catalogue,
                                        const std::function<std::uint64_t()>& draw);

/// The first file whose `worlds` do not have the world that was asked for, as a message; empty if
/// all do.
std::string refuse_world(const std::vector<LoadedScenario>& files, const RunOptions& options);

/// A fault that a case's world cannot carry out as the file says, as a message; empty if there is
/// none.
std::string refuse_silence(const std::vector<harness::Case>& cases);

/// One line that repeats the case, quoted for a shell.
std::string reproduce_line(const harness::Case& run, const RunOptions& options,
                           const std::string& command);

}  // namespace rehearse::cli
