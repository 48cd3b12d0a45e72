#include "runtime/real/file_disk.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "runtime/real/socket.hpp"

namespace rehearse::real {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPlain =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
constexpr std::string_view kUnfinished = "%unfinished-";  // no object's file begins so

Failure failed(std::string_view doing, std::string_view name, int error) {
  const Code code = error == ENOSPC || error == EDQUOT ? Code::disk_full
                    : error == ENOENT                  ? Code::not_found
                                                       : Code::disk_error;
  return {code, fmt::format("cannot {} '{}': {}", doing, name, error_text(error)), {}, 0};
}

std::string object_name(std::string_view file) {
  std::string object;
  for (std::size_t i = 0; i < file.size(); ++i) {
    if (file[i] == '%' && i + 2 < file.size()) {
      object += static_cast<char>(std::stoi(std::string(file.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      object += file[i];
    }
  }
  return object;
}

int write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

int write_file(const std::string& path, std::span<const std::byte> bytes) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.valid()) return errno;
  if (const int error = write_all(file.get(), bytes); error != 0) return error;
  return ::fsync(file.get()) == 0 ? 0 : errno;
}

// A name is durable only with its directory.
int sync_directory(const std::string& path) {
  const Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return errno;
  return ::fsync(directory.get()) == 0 ? 0 : errno;
}

int put_file(const std::string& directory, const std::string& file,
             std::span<const std::byte> bytes) {
  const std::string part = fmt::format("{}/{}{}", directory, kUnfinished, file);
  int error = write_file(part, bytes);
  if (error == 0 && ::rename(part.c_str(), fmt::format("{}/{}", directory, file).c_str()) != 0) {
    error = errno;
  }
  if (error != 0) ::unlink(part.c_str());
  return error != 0 ? error : sync_directory(directory);
}

int read_file(const std::string& path, Bytes& bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return errno;
  for (;;) {
    const std::size_t before = bytes.size();
    bytes.resize(before + (std::size_t{1} << 16));
    const ssize_t got = ::read(file.get(), bytes.data() + before, bytes.size() - before);
    bytes.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return 0;
    if (got < 0 && errno != EINTR) return errno;
  }
}

}  // namespace

std::string file_name(std::string_view object) {
  std::string file;
  for (const char letter : object) {
    if (kPlain.find(letter) != std::string_view::npos) {
      file += letter;
    } else {
      file += fmt::format("%{:02X}", static_cast<unsigned char>(letter));
    }
  }
  // "." and ".." are no files.
  if (file.starts_with('.')) file.replace(0, 1, "%2E");
  return file;
}

FileDisk::FileDisk(std::string directory, Offload& offload)
    : directory_(std::move(directory)), offload_(offload) {
  std::error_code ignored;  // the first use says what is wrong
  fs::create_directories(directory_, ignored);
}

Status FileDisk::put(std::string_view name, Bytes bytes) {
  int error = 0;
  offload_.run([&] { error = put_file(directory_, file_name(name), bytes); });
  // Without its directory nothing can be put: that is no object that is missing.
  if (error == ENOENT) error = EIO;
  return error == 0 ? Status() : Status(failed("write", name, error));
}

Result<Bytes> FileDisk::get(std::string_view name) {
  int error = 0;
  Bytes bytes;
  offload_.run(
      [&] { error = read_file(fmt::format("{}/{}", directory_, file_name(name)), bytes); });
  if (error != 0) return failed("read", name, error);
  return bytes;
}

Result<std::vector<std::string>> FileDisk::list(std::string_view prefix) {
  std::error_code error;
  std::vector<std::string> names;
  offload_.run([&] {
    for (const auto& entry : fs::directory_iterator(directory_, error)) {
      const std::string file = entry.path().filename().string();
      if (file.starts_with(kUnfinished)) continue;
      std::string name = object_name(file);
      if (std::string_view(name).starts_with(prefix)) names.push_back(std::move(name));
    }
  });
  if (error) return failed("list", directory_, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

Status FileDisk::remove(std::string_view name) {
  int error = 0;
  offload_.run([&] {
    const std::string path = fmt::format("{}/{}", directory_, file_name(name));
    error = ::unlink(path.c_str()) != 0 ? errno : sync_directory(directory_);
  });
  return error == 0 ? Status() : Status(failed("remove", name, error));
}

}  // namespace rehearse::real
