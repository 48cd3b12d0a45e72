#pragma once

#include "harness/catalogue.hpp"

namespace rehearse::harness {

/// What the built-in workloads declare: names, options with defaults and help, workers needed.
/// Their programs are in `workloads/`.
Catalogue builtin_workloads();

}  // namespace rehearse::harness
