#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstdint>

#include "runtime/base/time.hpp"
#include "runtime/real/descriptor.hpp"

namespace rehearse::real {

/// Hears of a descriptor that became ready.
class Watcher {
 public:
  virtual ~Watcher() = default;
  /// `events` are epoll's. May add and remove any watcher.
  virtual void ready(std::uint32_t events) = 0;
};

/// The descriptors that this process waits for. Edge-triggered: whoever is told reads or writes
/// until it would block.
class Poller {
 public:
  Poller();

  void add(int descriptor, Watcher& watcher);
  /// `watcher` hears nothing more, not even of what has been collected already.
  void remove(int descriptor, const Watcher& watcher);

  /// Tells watchers what is ready, after waiting for it for at most `timeout`; zero does not wait,
  /// `Duration::max()` waits for ever. Returns how many were told.
  int poll(Duration timeout);

 private:
  static constexpr int kBatch = 64;

  Descriptor epoll_;
  std::array<epoll_event, kBatch> events_{};
  int count_ = 0;
};

/// Whether to spin a little before blocking. Learns: a spin that finds something raises its score
/// by one, one that does not lowers it by two; at zero only each 128th wait tries.
class SpinPolicy {
 public:
  explicit SpinPolicy(bool allowed) : allowed_(allowed) {}

  bool try_now() { return allowed_ && (score_ > 0 || (++skipped_ & 127) == 0); }
  void tried(bool found) {
    score_ += found ? 1 : -2;
    score_ = score_ < 0 ? 0 : score_ > kScoreMax ? kScoreMax : score_;
  }

 private:
  static constexpr int kScoreMax = 16;

  bool allowed_;
  int score_ = 4;
  unsigned skipped_ = 0;
};

}  // namespace rehearse::real
