#pragma once

#include <string>

#include "runtime/real/launcher.hpp"
#include "runtime/worker/program.hpp"

namespace rehearse::bench {

/// Runs `workload` of `program` in two forked processes and returns what rank 0 printed. Throws
/// Error of the worker that failed, unless `losses` are expected.
std::string run_pair(const real::Body& body, bool losses = false);
std::string run_pair(const Program& program, const std::string& workload, bool losses = false);
/// The same in `workers` processes.
std::string run_workers(int workers, const Program& program, const std::string& workload);

}  // namespace rehearse::bench
