#pragma once

#include <sys/types.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/real/run_directory.hpp"

namespace rehearse::scenarios {

/// What a command came to.
struct Ended {
  int code = 0;  ///< its exit code, or 128 + the signal that ended it
  std::string out;
  std::string err;

  bool says(const std::string& text) const;  ///< on either stream
  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

/// Runs a program to its end. `meanwhile` gets its process id once it has started.
Ended run(const std::vector<std::string>& words, const std::function<void(pid_t)>& meanwhile = {});

/// The real binary, and the program whose workloads misbehave (odd_program.cpp).
Ended rehearse(std::vector<std::string> arguments);
Ended odd(std::vector<std::string> arguments, const std::function<void(pid_t)>& meanwhile = {});

/// A folder of a test's own, gone with it.
class Folder {
 public:
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }
  std::string write(const std::string& name, const std::string& text) const;
  /// A scenario of one step of `workload` on `workers` workers.
  std::string scenario(const std::string& workload, int workers,
                       const std::string& more = "") const;

 private:
  real::RunDirectory directory_;
};

}  // namespace rehearse::scenarios
