#pragma once

#include "harness/catalogue.hpp"

namespace rehearse::harness {

/// Workloads as a program might declare them, with options of each type, for tests without a
/// program.
Catalogue sample_catalogue();

}  // namespace rehearse::harness
