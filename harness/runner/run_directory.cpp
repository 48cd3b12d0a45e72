#include "harness/runner/run_directory.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "runtime/base/error.hpp"

namespace rehearse::harness {

RunDirectory::RunDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "rehearse-XXXXXX").string();
  if (!::mkdtemp(pattern.data())) {
    throw Error(Code::disk_error,
                "no directory for the run, " + pattern + ": " + std::strerror(errno));
  }
  path_ = pattern;
}

RunDirectory::~RunDirectory() {
  std::error_code ignored;  // what cannot be removed stays behind; the run is over
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace rehearse::harness
