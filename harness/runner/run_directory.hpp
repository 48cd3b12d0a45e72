#pragma once

#include <filesystem>
#include <string>

namespace rehearse::harness {

/// A new private directory for one run's logs and disks, below the system's temporary directory;
/// gone with this object. Throws Error{disk_error}.
class RunDirectory {
 public:
  RunDirectory();
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace rehearse::harness
