#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace rehearse::harness {

/// Where something was written: in a file, or in an argument of the command line (line 0).
struct Place {
  std::shared_ptr<const std::string> source;
  std::uint32_t line = 0;
  std::uint32_t column = 0;

  /// "quickstart.toml:3:8", or "--set seed=x".
  std::string text() const;
};

/// One error of the input.
struct Problem {
  Place place;
  std::string message;  ///< what is wrong, and what was expected

  std::string text() const;  ///< "file:line:column: message"
};

/// All that is wrong with one file. Reading goes on after most errors, so that one run tells all.
class Problems {
 public:
  void add(const Place& place, std::string message);
  bool empty() const { return problems_.empty(); }
  std::size_t size() const { return problems_.size(); }
  /// In the order of the file, arguments first.
  std::vector<Problem> sorted() const;

 private:
  std::vector<Problem> problems_;
};

}  // namespace rehearse::harness
