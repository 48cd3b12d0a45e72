#pragma once

#include <string>

#include "harness/document.hpp"

namespace rehearse::harness {

/// Sets what `argument`, KEY=VALUE, says in `document`, as if the file had said it. KEY is a dotted
/// name (`cluster.hosts`, `job.options.hidden`); a fault is named by its id
/// (`fault.worker-dies.when.step`). VALUE is a TOML value; anything else without brackets and
/// quotes at its start is a string. Missing tables and keys are made, except faults. Problems have
/// the argument as their place.
void apply_override(const std::string& argument, Value& document, Problems& problems);

}  // namespace rehearse::harness
