#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rehearse::cli {

/// Names that the command line will have and does not have yet: refused as such, never ignored.
bool is_later_command(std::string_view command);
bool is_later_run_option(std::string_view option);

/// "unknown command …, did you mean …?", or that it is not supported yet.
std::string refuse_command(const std::string& command, const std::vector<std::string>& known);
std::string refuse_option(const std::string& option, const std::string& command,
                          const std::vector<std::string>& known);

}  // namespace rehearse::cli
