#pragma once

#include <span>

#include "runtime/base/bytes.hpp"
#include "runtime/base/result.hpp"
#include "runtime/world/outcome.hpp"

namespace rehearse::harness {

/// A run's outcome as bytes: how it comes back from the process that made the run.
Bytes encode(const RunOutcome& outcome);
/// Fails with `corrupt`.
Result<RunOutcome> decode_outcome(std::span<const std::byte> bytes);

}  // namespace rehearse::harness
