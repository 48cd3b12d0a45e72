#include "reports/report_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace rehearse::reports {
namespace {

Status refused(const std::string& path, int error) {
  const Code code = error == ENOSPC || error == EDQUOT ? Code::disk_full : Code::disk_error;
  return Failure{
      code, fmt::format("cannot write report {}: {}", path, std::strerror(error)), {}, 0};
}

bool is_special(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

bool is_directory(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::string part_of(const std::string& path) { return path + ".part"; }

/// 0, or the errno of the step that failed. A write error may be told only by fsync or close.
int write_all(const std::string& path, const std::string& text, bool durable) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return errno;
  int error = 0;
  for (std::size_t at = 0; at < text.size() && error == 0;) {
    const ssize_t count = ::write(file, text.data() + at, text.size() - at);
    if (count >= 0) {
      at += static_cast<std::size_t>(count);
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == 0 && durable && ::fsync(file) != 0) error = errno;
  if (::close(file) != 0 && error == 0) error = errno;
  return error;
}

}  // namespace

Status write_report(const std::string& path, const std::string& text) {
  if (is_special(path)) {
    const int error = write_all(path, text, false);
    return error == 0 ? Status() : refused(path, error);
  }
  if (is_directory(path)) return refused(path, EISDIR);
  const std::string part = part_of(path);
  int error = write_all(part, text, true);
  if (error == 0 && std::rename(part.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return {};
  ::unlink(part.c_str());
  return refused(path, error);
}

Status check_writable(const std::string& path) {
  if (is_special(path)) return {};
  if (is_directory(path)) return refused(path, EISDIR);
  const std::string part = part_of(path);
  const int error = write_all(part, "", false);
  if (error != 0) return refused(path, error);
  ::unlink(part.c_str());
  return {};
}

}  // namespace rehearse::reports
