#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <typeinfo>

namespace rehearse {

/// "std::runtime_error": the type of an exception, as people write it.
inline std::string type_name(const std::exception& exception) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(typeid(exception).name(), nullptr, nullptr, &status), std::free);
  return status == 0 ? plain.get() : typeid(exception).name();
}

}  // namespace rehearse
