#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "harness/parse.hpp"

namespace rehearse::cli {

/// Files as they are, directories as all *.toml below them, sorted; each file once. With `filter`,
/// only those whose path or name matches the glob.
std::vector<std::string> expand_paths(const std::vector<std::string>& paths,
                                      const std::string& filter);

/// A file and what it says.
struct LoadedScenario {
  std::string file;
  harness::Scenario scenario;
};

/// All of `files`; nothing if any has a problem. Problems of all files are written to `err`.
std::optional<std::vector<LoadedScenario>> load_all(const std::vector<std::string>& files,
                                                    const std::vector<std::string>& overrides,
                                                    const harness::Catalogue& catalogue,
                                                    std::ostream& err);

}  // namespace rehearse::cli
