#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/result.hpp"
#include "runtime/real/descriptor.hpp"

namespace rehearse::real {

/// Counters that the processes of a job share, in memory without a name: so that the how manyeth
/// occurrence is known at once, whichever process comes to it.
class SharedCounts {
 public:
  /// All zero. Fails with `cannot_start`.
  static Result<SharedCounts> create(std::size_t counters);
  /// Those behind another process's `descriptor()`, which is taken over.
  static Result<SharedCounts> attach(int descriptor);

  SharedCounts(SharedCounts&& other) noexcept;
  SharedCounts& operator=(SharedCounts&&) = delete;
  ~SharedCounts();

  /// Adds one, and says how many it makes. REQUIRES: there is such a counter.
  std::uint64_t next(std::size_t counter);
  int descriptor() const { return memory_.get(); }

 private:
  SharedCounts(Descriptor memory, std::uint64_t* counts, std::size_t size);
  static Result<SharedCounts> map(Descriptor memory, std::size_t counters);

  Descriptor memory_;
  std::uint64_t* counts_;
  std::size_t size_;
};

}  // namespace rehearse::real
