#include "app/stop_signals.hpp"

#include <fmt/format.h>

#include <cstring>

namespace rehearse::cli {

StopSignals::StopSignals() {
  sigemptyset(&held_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now {};
    ::sigaction(signal, nullptr, &now);
    if (now.sa_handler != SIG_IGN) sigaddset(&held_, signal);
  }
  ::sigprocmask(SIG_BLOCK, &held_, &before_);
}

StopSignals::~StopSignals() {
  const timespec at_once{};
  while (::sigtimedwait(&held_, nullptr, &at_once) > 0) {
  }
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int StopSignals::pending() const {
  sigset_t waiting{};
  ::sigpending(&waiting);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    if (sigismember(&waiting, signal) == 1) return signal;
  }
  return 0;
}

std::string signal_text(int signal) {
  return fmt::format("signal {} ({})", signal, ::strsignal(signal));
}

}  // namespace rehearse::cli
