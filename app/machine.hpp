#pragma once

#include <string>

namespace rehearse::cli {

/// "x86_64, 2 cores, Linux 6.1": for reports.
std::string machine_text();

/// "g++ 12.2.0": what this library was built with.
std::string compiler_text();

/// The first of the shared libraries, named `names` apart by spaces, that the loader finds; empty
/// if none. Looked up without running its constructors' side effects into this process for long: it
/// is closed again.
std::string find_library(const std::string& names);

}  // namespace rehearse::cli
