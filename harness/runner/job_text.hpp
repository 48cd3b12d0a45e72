#pragma once

#include <string>

#include "harness/scenario.hpp"
#include "runtime/worker/worker.hpp"
#ifdef REHEARSE_HAS_SIMGRID
#include "sim/platform.hpp"
#endif

namespace rehearse::harness {

/// A rate of bits as whole bytes, at least one.
std::int64_t bytes_per_s(std::int64_t bits_per_s);

/// What the workers of a scenario's job are told.
JobSpec job_of(const Scenario& scenario);

/// A job as JSON text: how a worker in a process of its own is told. `job_from` throws
/// Error{bad_argument} for a text that `to_text` does not write.
std::string to_text(const JobSpec& job);
JobSpec job_from(const std::string& text);

#ifdef REHEARSE_HAS_SIMGRID
sim::ClusterSpec sim_cluster(const Cluster& cluster);
#endif

}  // namespace rehearse::harness
