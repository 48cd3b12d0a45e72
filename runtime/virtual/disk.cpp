#include "runtime/virtual/disk.hpp"

#include <fmt/format.h>

#include <utility>

namespace rehearse::virtual_world {
namespace {

Failure missing(std::string_view name) {
  return {Code::not_found, fmt::format("no object '{}' on this disk", name), {}, 0};
}

}  // namespace

void Objects::put(std::string_view name, Bytes bytes) {
  objects_.insert_or_assign(std::string(name), std::move(bytes));
}

Result<Bytes> Objects::get(std::string_view name) const {
  const auto found = objects_.find(name);
  if (found == objects_.end()) return missing(name);
  return found->second;
}

std::vector<std::string> Objects::list(std::string_view prefix) const {
  std::vector<std::string> names;
  for (auto at = objects_.lower_bound(prefix); at != objects_.end(); ++at) {
    if (!at->first.starts_with(prefix)) break;
    names.push_back(at->first);
  }
  return names;
}

Status Objects::remove(std::string_view name) {
  const auto found = objects_.find(name);
  if (found == objects_.end()) return missing(name);
  objects_.erase(found);
  return {};
}

}  // namespace rehearse::virtual_world
