#pragma once

#include <string>

#include "runtime/real/descriptor.hpp"

namespace rehearse::real {

/// A new private directory below the system's temporary directory, gone with this object. What a
/// process that was killed has left of its own is removed by the next one that makes one.
class RunDirectory {
 public:
  /// Throws Error{disk_error}.
  RunDirectory();
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Descriptor lock_;  // held for life: by it others see that somebody is here
};

}  // namespace rehearse::real
