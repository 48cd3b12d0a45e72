#pragma once

#include <chrono>

#include "runtime/base/time.hpp"

namespace rehearse::harness {

/// How much of the wall time that a case may take is left.
class WallTime {
 public:
  /// From now on; `Duration::max()`: no limit.
  explicit WallTime(Duration limit) : limit_(limit), start_(std::chrono::steady_clock::now()) {}

  Duration left() const {
    if (limit_ == Duration::max()) return limit_;
    return std::max(Duration(0), limit_ - Duration(std::chrono::steady_clock::now() - start_));
  }
  bool up() const { return left() == Duration(0); }

 private:
  Duration limit_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace rehearse::harness
