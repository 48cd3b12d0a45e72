#pragma once

#include <exception>
#include <string>

#include "runtime/base/error.hpp"

namespace rehearse {

/// What a worker failed with when `error` left one of its tasks: the same words in every world. An
/// Error keeps its code and the worker that it names; anything else is a `remote_exception` here.
Failure failure_of_task(const std::string& worker, const std::string& task,
                        const std::exception_ptr& error);

}  // namespace rehearse
