#pragma once

#include <string>

#include "runtime/base/result.hpp"

namespace rehearse::reports {

/// Writes `text` to `path` so that a reader finds the old file or the whole new one: to
/// `path`.part beside it, then renamed. What is no regular file (a device, a pipe) is written to
/// directly, never replaced. Fails with `disk_full` or `disk_error`, naming path and reason; then
/// nothing is left behind.
Status write_report(const std::string& path, const std::string& text);

/// Fails as `write_report` would for the reason of the path (no such directory, no permission),
/// before hours are spent on a run; leaves nothing behind.
Status check_writable(const std::string& path);

}  // namespace rehearse::reports
