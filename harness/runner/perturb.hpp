#pragma once

#include <cstdint>

namespace rehearse::harness {

/// From now on `operator new` of this process pads every allocation by an amount drawn from `seed`:
/// a run must not depend on where things lie in memory. Before it is called, new is malloc.
void perturb_allocations(std::uint64_t seed);

}  // namespace rehearse::harness
