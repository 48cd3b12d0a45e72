#include "runtime/worker/options.hpp"

#include <fmt/format.h>

#include "runtime/base/error.hpp"

namespace rehearse {

template <class T>
const T& Options::get(std::string_view name, const char* type) const {
  const auto found = values_.find(std::string(name));
  if (found != values_.end()) {
    if (const T* value = std::get_if<T>(&found->second)) return *value;
  }
  throw Error(Code::bad_argument,
              fmt::format("this workload declares no {} option '{}'", type, name));
}

std::int64_t Options::integer(std::string_view name) const {
  return get<std::int64_t>(name, "integer");
}
double Options::number(std::string_view name) const { return get<double>(name, "number"); }
const std::string& Options::text(std::string_view name) const {
  return get<std::string>(name, "text");
}
bool Options::flag(std::string_view name) const { return get<bool>(name, "boolean"); }

}  // namespace rehearse
