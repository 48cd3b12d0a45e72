#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/scenario.hpp"
#include "runtime/base/time.hpp"

namespace rehearse::cli {

struct RunOptions {
  std::vector<std::string> paths;
  std::optional<harness::WorldKind> world;
  std::optional<std::uint64_t> seed;
  bool random_seed = false;
  int repeat = 1;
  std::vector<std::string> overrides;
  std::string json;  ///< file, "-", or empty
  bool check_determinism = false;
  bool list = false;
  bool force = false;
  bool fail_fast = false;
  std::optional<Duration> timeout;
  std::string transport;  ///< of processes: "tcp", "shm", or empty
  std::string filter;
};

struct ExplainOptions {
  std::string file;
  std::vector<std::string> overrides;
};

/// What was asked for, or what to print instead.
struct CommandLine {
  enum class Command : std::uint8_t { none, run, explain, schema, list, doctor, version, worker };
  Command command = Command::none;
  RunOptions run;
  ExplainOptions explain;
  std::string what;   ///< of `list` and `schema`
  bool json = false;  ///< of `list` and `doctor`
  int spec_fd = -1;   ///< of `worker`
  std::string text;   ///< of `none`: help, or what is wrong
  int exit_code = 0;  ///< of `none`: 0 for help, 2 for what is wrong
};

/// Never throws. What is wrong is told in one line, with the nearest valid name; commands and
/// options of later versions are "not supported yet".
CommandLine parse_command_line(int argc, const char* const* argv, const std::string& program);

/// What `list` can print.
std::vector<std::string> list_topics();

}  // namespace rehearse::cli
