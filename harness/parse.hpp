#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/problems.hpp"
#include "harness/scenario.hpp"

namespace rehearse::harness {

/// A scenario, or what is wrong with the file: exactly one of the two.
struct Parsed {
  std::optional<Scenario> scenario;
  std::vector<Problem> problems;  ///< in the order of the file
};

/// Reads and checks the scenario file `file`. `overrides` are KEY=VALUE with dotted names, applied
/// before anything is checked (`--set`). Never throws for bad input.
Parsed load_scenario(const std::string& file, const std::vector<std::string>& overrides,
                     const Catalogue& catalogue);

/// The same for a text; `source` is what messages call it.
Parsed parse_scenario(std::string_view text, const std::string& source,
                      const std::vector<std::string>& overrides, const Catalogue& catalogue);

}  // namespace rehearse::harness
