#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/real/control.hpp"
#include "runtime/real/process.hpp"

namespace rehearse::real {

/// How a process ended.
struct Exit {
  int code = 0;
  int signal = 0;
};

/// A worker's process, seen from its launcher. Its own process group; it dies with the launcher.
class Child {
 public:
  struct Plan {
    std::vector<std::string> command;  ///< empty: `body` in a forked child
    const Body* body = nullptr;
    ProcessOptions options;  ///< the listeners are taken over
    std::string log_path;
    std::vector<int> launchers_own;  ///< descriptors that the child must not keep
  };
  /// Fails with `cannot_start`, naming the program.
  static Result<Child> start(Plan plan);

  Child(Child&&) = default;
  Child& operator=(Child&&) = default;
  /// A process that still runs is killed and waited for.
  ~Child();

  int pidfd() const { return pidfd_.get(); }
  ControlStream& control() { return *control_; }
  /// To the process group.
  void signal(int number) const;
  /// Nothing while it runs. What is left of its process group is killed.
  std::optional<Exit> reap();

 private:
  Child(pid_t pid, Descriptor pidfd, Descriptor control);

  pid_t pid_ = -1;
  Descriptor pidfd_;
  std::optional<ControlStream> control_;
};

}  // namespace rehearse::real
