#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/world/world.hpp"

namespace rehearse::virtual_world {

/// What a worker's disk holds. It outlives its worker.
class Objects {
 public:
  void put(std::string_view name, Bytes bytes);
  Result<Bytes> get(std::string_view name) const;
  std::vector<std::string> list(std::string_view prefix) const;
  Status remove(std::string_view name);

 private:
  std::map<std::string, Bytes, std::less<>> objects_;
};

}  // namespace rehearse::virtual_world
