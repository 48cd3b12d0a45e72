#include "runtime/real/run_directory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/file.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "runtime/base/error.hpp"
#include "runtime/real/socket.hpp"

namespace rehearse::real {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "rehearse-";
constexpr const char* kLock = "/.in-use";

fs::path temporary_directory() {
  std::error_code error;
  fs::path path = fs::temp_directory_path(error);
  if (!error) return path;
  throw Error(Code::disk_error,
              fmt::format("no directory for the run: TMPDIR, or /tmp, is no directory ({})",
                          error.message()));
}

Descriptor locked(const std::string& file, int flags) {
  Descriptor descriptor(::open(file.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (descriptor.valid() && ::flock(descriptor.get(), LOCK_EX | LOCK_NB) != 0) descriptor.reset();
  return descriptor;
}

// The lock of a process goes with it, however it ends; a process number may be another's by now.
void remove_what_is_left(const fs::path& parent) {
  std::error_code ignored;  // somebody else may be at it, and what stays harms nobody
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    const std::string path = entry.path().string();
    if (!entry.path().filename().string().starts_with(kPrefix)) continue;
    if (!entry.is_directory(ignored) || entry.is_symlink(ignored)) continue;
    if (locked(path + kLock, O_RDWR).valid()) fs::remove_all(path, ignored);
  }
}

}  // namespace

RunDirectory::RunDirectory() {
  const fs::path parent = temporary_directory();
  remove_what_is_left(parent);
  path_ = (parent / (std::string(kPrefix) + "XXXXXX")).string();
  if (!::mkdtemp(path_.data())) {
    throw Error(Code::disk_error, fmt::format("no directory for the run: cannot make {}: {}", path_,
                                              error_text(errno)));
  }
  // Under its own name only once it is locked: else another would take it for a dead one's.
  const std::string unlocked = path_ + kLock + ".new";
  lock_ = locked(unlocked, O_RDWR | O_CREAT | O_EXCL);
  if (lock_.valid() && ::rename(unlocked.c_str(), (path_ + kLock).c_str()) == 0) return;
  const std::string why = error_text(errno);
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  throw Error(Code::disk_error,
              fmt::format("no directory for the run: cannot write into {}: {}", path_, why));
}

RunDirectory::~RunDirectory() {
  std::error_code ignored;  // what cannot be removed stays behind; the run is over
  fs::remove_all(path_, ignored);
}

}  // namespace rehearse::real
