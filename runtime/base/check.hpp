#pragma once

#include <string>
#include <string_view>

namespace rehearse {

/// Ends the process: a bug was found. Prints the expression, the place and, when a world has set
/// it, where in the job that was.
[[noreturn]] void check_failed(std::string_view expression, const char* file, int line,
                               const std::string& detail);

/// What `check_failed` adds: "rank 2, generation 0, at 1.5s". Set by a world for this thread.
using CheckContext = std::string (*)(void* argument);
void set_check_context(CheckContext describe, void* argument);

}  // namespace rehearse

/// States what must hold; on in every build. `detail` says what was expected and what came; it is
/// evaluated only when the check fails.
#define REHEARSE_CHECK(condition, detail)                                 \
  do {                                                                    \
    if (!(condition)) [[unlikely]]                                        \
      ::rehearse::check_failed(#condition, __FILE__, __LINE__, (detail)); \
  } while (false)
