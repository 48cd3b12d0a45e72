#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace rehearse::tidy {

/// A name as it stands in the code, with its qualification: `std::chrono::steady_clock::now`.
struct Name {
  std::vector<std::string> parts;
  int line;
  char before;                ///< last character before it that is not a space, 0 at the start
  char after;                 ///< first character after it that is not a space, 0 at the end
  std::string previous_word;  ///< the word right before it, or empty

  std::string joined() const;
};

struct Include {
  std::string path;
  int line;
};

/// One C++ file, cut up as far as the rules need it; no preprocessing.
struct Source {
  std::string path;                ///< relative to the root of the project, with slashes
  std::string text;                ///< as it is
  std::string code;                ///< comments and literals replaced by spaces, lines kept
  std::vector<std::string> lines;  ///< of `text`
  std::vector<Name> names;         ///< of `code`
  std::vector<Include> includes;

  bool is_under(std::string_view folder) const;
  bool is_header() const;
  int line_at(std::size_t offset) const;
};

Source parse(std::string path, std::string text);

/// Any other text that people write: build files, scripts, pages.
struct Page {
  std::string path;
  std::string text;
};

struct Tree {
  std::vector<Source> sources;
  std::vector<Page> pages;
};

/// Reads the project whose root this is, without what is built or fetched. Sorted by path.
Tree read_tree(const std::filesystem::path& root);

}  // namespace rehearse::tidy
