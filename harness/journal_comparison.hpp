#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/scenario.hpp"
#include "runtime/world/event.hpp"

namespace rehearse::harness {

/// A run's journal against that of its oracle.
struct JournalComparison {
  std::uint64_t compared = 0;           ///< lines of the run
  std::uint64_t different = 0;          ///< by their bits, or without a counterpart
  std::optional<std::int64_t> max_ulp;  ///< over all lines; nothing if it is unknown for one
  std::optional<JournalEntry> first;    ///< that is beyond the bound; else that has other bits
  std::optional<std::int64_t> index;    ///< in it
  std::string why;                      ///< it is beyond the bound; empty: nothing is
};

/// Lines that only the oracle has are missing: different if the run is `complete`.
JournalComparison compare(std::vector<JournalEntry> run, std::vector<JournalEntry> oracle,
                          bool complete, const Closeness& bound);

}  // namespace rehearse::harness
