#include "app/machine.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <sstream>

namespace rehearse::cli {

std::string machine_text() {
  utsname system{};
  if (::uname(&system) != 0) return "unknown";
  return fmt::format("{}, {} cores, {} {}", system.machine, ::sysconf(_SC_NPROCESSORS_ONLN),
                     system.sysname, system.release);
}

std::string compiler_text() {
#if defined(__clang__)
  return fmt::format("clang++ {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("g++ {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

std::string find_library(const std::string& names) {
  std::istringstream stream(names);
  for (std::string name; stream >> name;) {
    if (void* library = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
      ::dlclose(library);
      return name;
    }
  }
  return {};
}

}  // namespace rehearse::cli
