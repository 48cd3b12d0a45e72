#pragma once

#include <cstdint>

#include "runtime/world/tasks.hpp"

namespace rehearse::harness {

/// Counts what torch computes in this process while it lives: floating-point operations and bytes
/// read and written, of outermost operations only. What a virtual world charges its workers for.
///
/// An estimate: 2·m·k·n for products of matrices, their like for convolutions, one operation per
/// element of the result for all else. Integers that depend on shapes alone, so that simulated time
/// repeats exactly.
class TorchCost {
 public:
  TorchCost();
  ~TorchCost();
  TorchCost(const TorchCost&) = delete;
  TorchCost& operator=(const TorchCost&) = delete;

  /// What has been counted since the last call.
  Cost take();

 private:
  std::uint64_t callback_ = 0;
};

}  // namespace rehearse::harness
