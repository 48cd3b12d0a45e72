#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/base/time.hpp"
#include "runtime/world/outcome.hpp"

namespace rehearse::harness {

/// How to make a run in a process of its own: by a forked child that calls `body`, or by starting
/// `command`, which writes `encode(outcome)` to the descriptor whose number is appended to it.
struct Apart {
  std::function<RunOutcome()> body;
  std::vector<std::string> command;
};

/// Waits for it, at most `timeout` of wall time; then the process is ended and the outcome is
/// `timed_out`. Fails with `cannot_start`, with `stopped` (the process is ended) if SIGINT or
/// SIGTERM is blocked in this process and pending, or with `remote_exception` if the process died
/// or threw, saying how. REQUIRES: this process has one thread.
Result<RunOutcome> run_apart(const Apart& apart, Duration timeout);

/// What the other side of `command` does.
void hand_over(const RunOutcome& outcome, int descriptor);

}  // namespace rehearse::harness
