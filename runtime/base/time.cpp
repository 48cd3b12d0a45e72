#include "runtime/base/time.hpp"

#include <fmt/format.h>

namespace rehearse {

std::string format_duration(Duration duration) {
  if (duration == Duration::max()) return "never";
  const auto count = duration.count();
  const double magnitude = count < 0 ? -static_cast<double>(count) : static_cast<double>(count);
  if (count == 0) return "0s";
  if (magnitude >= 1e9) return fmt::format("{:.6g}s", static_cast<double>(count) / 1e9);
  if (magnitude >= 1e6) return fmt::format("{:.6g}ms", static_cast<double>(count) / 1e6);
  if (magnitude >= 1e3) return fmt::format("{:.6g}us", static_cast<double>(count) / 1e3);
  return fmt::format("{}ns", count);
}

}  // namespace rehearse
