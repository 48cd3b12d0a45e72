#pragma once

#include <string>

#include "app/cli.hpp"

namespace rehearse::cli {

/// `list WHAT`: stable names, one a line, with help where there is some; as JSON a list of objects.
int list_command(const std::string& what, bool json, const Setup& setup, const Streams& streams);

}  // namespace rehearse::cli
