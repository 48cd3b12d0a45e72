#include "runtime/base/check.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace rehearse {
namespace {

struct Describer {
  CheckContext describe = nullptr;
  void* argument = nullptr;
};

// The one piece of per-thread state outside the worlds.
// tidy: mutable-static: a failed check has no other way to know whose it is.
thread_local Describer describer;

}  // namespace

void set_check_context(CheckContext describe, void* argument) { describer = {describe, argument}; }

void check_failed(std::string_view expression, const char* file, int line,
                  const std::string& detail) {
  const std::string where =
      describer.describe ? fmt::format(" ({})", describer.describe(describer.argument)) : "";
  fmt::print(stderr, "{}:{}: check failed{}: {}: {}\n", file, line, where, expression, detail);
  std::fflush(stderr);
  std::abort();
}

}  // namespace rehearse
