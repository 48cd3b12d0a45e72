#include "runtime/base/check.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace rehearse {
namespace {

// The one piece of per-thread state outside the worlds: a failed check has no other way to know
// whose it is.
thread_local CheckContext describe_ = nullptr;
thread_local void* argument_ = nullptr;

}  // namespace

void set_check_context(CheckContext describe, void* argument) {
  describe_ = describe;
  argument_ = argument;
}

void check_failed(std::string_view expression, const char* file, int line,
                  const std::string& detail) {
  const std::string where = describe_ ? fmt::format(" ({})", describe_(argument_)) : "";
  fmt::print(stderr, "{}:{}: check failed{}: {}: {}\n", file, line, where, expression, detail);
  std::fflush(stderr);
  std::abort();
}

}  // namespace rehearse
