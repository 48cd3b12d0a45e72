#pragma once

#include "app/cli.hpp"
#include "app/command_line.hpp"

namespace rehearse::cli {

/// `run`: reads all files before the first run, runs every case, writes the report and the summary.
/// Returns the exit code.
int run_command(const RunOptions& options, const Setup& setup, const Streams& streams);

}  // namespace rehearse::cli
