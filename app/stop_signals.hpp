#pragma once

#include <signal.h>

#include <string>

namespace rehearse::cli {

/// While this lives, SIGINT and SIGTERM do not end the process: they stay pending, for whoever
/// waits (harness/runner, runtime/real) to see, so that workers are ended and the report is written
/// first. One that was ignored when the process began, as nohup and a shell's `&` do, stays
/// ignored. REQUIRES: this process has one thread.
class StopSignals {
 public:
  StopSignals();
  /// Drops what is pending: who asked `pending` has acted on it.
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that came, or 0.
  int pending() const;

 private:
  sigset_t held_{};
  sigset_t before_{};
};

/// "signal 15 (Terminated)".
std::string signal_text(int signal);

}  // namespace rehearse::cli
