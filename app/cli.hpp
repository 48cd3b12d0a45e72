#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "harness/case.hpp"
#include "harness/catalogue.hpp"
#include "reports/json_report.hpp"

namespace rehearse::cli {

/// Bad input; other codes are those of verdicts.
inline constexpr int kBadInput = 2;
inline constexpr int kHarnessError = 3;

/// One thing that `doctor` looked for.
struct Finding {
  std::string what;   ///< "SimGrid"
  std::string found;  ///< "3.32"; empty: it is absent
  std::string costs;  ///< what its absence costs
};

/// Where text goes, and what may be done to it there.
struct Streams {
  std::ostream& out;
  std::ostream& err;
  bool colours = false;   ///< `out` is a terminal and NO_COLOR is not set
  bool progress = false;  ///< `err` is a terminal
};

/// What a program brings to its command line.
struct Setup {
  harness::Runner& runner;
  const harness::Catalogue& catalogue;
  reports::Identity identity;
  std::string command = "rehearse";  ///< how the user started it; lines to copy begin with it
  std::vector<Finding> findings;     ///< of `doctor`: what only the program can know
  /// `worker --spec-fd N`, by which a launcher starts a worker in a process of its own.
  std::function<int(int spec_fd)> worker;
};

/// Runs one command; the subcommands are the same for every program. Returns the exit code. Never
/// throws.
int main(int argc, const char* const* argv, const Setup& setup, const Streams& streams);

/// With the standard streams.
int main(int argc, const char* const* argv, const Setup& setup);

}  // namespace rehearse::cli
