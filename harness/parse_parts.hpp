#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/document.hpp"
#include "harness/scenario.hpp"

/// The parts of the parser; used by parse*.cpp only.
namespace rehearse::harness {

/// What every part needs.
struct ParseContext {
  const Catalogue& catalogue;
  std::int64_t workers = 1;  ///< of the cluster: ranks are below it
  Problems& problems;
};

/// Reads `[[fault]]`. A fault with a problem may be left out of the list.
std::vector<FaultSpec> read_faults(const Value& value, ParseContext& context);

/// A WHO: { rank | worker | link (+ both) | everyone }. `path` is its dotted name.
std::optional<FaultTarget> read_who(const Value& value, const std::string& path,
                                    ParseContext& context);

Expect read_expect(const Value& value, ParseContext& context);

}  // namespace rehearse::harness
