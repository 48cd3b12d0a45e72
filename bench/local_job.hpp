#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "runtime/real/launcher.hpp"
#include "runtime/worker/program.hpp"

namespace rehearse::bench {

struct LocalOptions {
  real::Transport transport = real::Transport::automatic;  ///< between workers of one host
  bool losses = false;                                     ///< they are expected, and no error
};

/// Runs `workload` of `program` in forked processes of one host and returns what rank 0 printed.
/// Throws Error of the worker that failed.
std::string run_local(int workers, const real::Body& body, const LocalOptions& options);
std::string run_local(int workers, const Program& program, const std::string& workload,
                      const LocalOptions& options);

/// `--transport tcp|shm`.
void add_transport(CLI::App& app, real::Transport& transport);

}  // namespace rehearse::bench
