#pragma once

#include <string>
#include <vector>

namespace rehearse::harness {

/// A file of tests/harness/corpus and what it says about itself in comments at its end.
struct CorpusFile {
  std::string name;
  std::string text;
  std::string error;   ///< of bad ones: "LINE:COLUMN: part of the message"
  std::string schema;  ///< of bad ones: "refuses"; "accepts": beyond a schema; "text": no TOML
};

/// Sorted by name. REQUIRES: the working directory is the root of the repository.
std::vector<CorpusFile> corpus(const std::string& folder);

}  // namespace rehearse::harness
