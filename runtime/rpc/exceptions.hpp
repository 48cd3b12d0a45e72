#pragma once

#include <string>

#include "runtime/base/result.hpp"

namespace rehearse::rpc {

/// The failure that stands for a caught exception, on this worker: its code if it is an Error, else
/// `remote_exception` with type and text. `Cancelled` is thrown on.
/// REQUIRES: called in a catch block.
Failure failure_of_current_exception(const std::string& worker);

}  // namespace rehearse::rpc
