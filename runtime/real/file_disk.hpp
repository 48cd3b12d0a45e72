#pragma once

#include <string>

#include "runtime/real/offload.hpp"
#include "runtime/world/world.hpp"

namespace rehearse::real {

/// Objects as files of one directory. A write goes to another file first and is renamed when it is
/// on disk, so a crash leaves the old object or the new one.
class FileDisk final : public Disk {
 public:
  /// `directory` is created if it is missing.
  FileDisk(std::string directory, Offload& offload);

  Status put(std::string_view name, Bytes bytes) override;
  Result<Bytes> get(std::string_view name) override;
  Result<std::vector<std::string>> list(std::string_view prefix) override;
  Status remove(std::string_view name) override;

 private:
  std::string directory_;
  Offload& offload_;
};

/// The file of an object: characters outside [A-Za-z0-9_.-] are written as %XX.
std::string file_name(std::string_view object);

}  // namespace rehearse::real
