#pragma once

#include "harness/verdict.hpp"

namespace rehearse::harness {

/// Outcomes as a world would report them, for tests of what judges and prints them.

/// A run of `workers` workers that all finished, with a journal of `entries` entries.
RunOutcome finished_run(int workers, int entries);

/// A case of a scenario with one kill fault of w2 and the expectation that it completes.
Case sample_case();

/// Evidence that passes `sample_case`: the fault fired and nothing differs.
Evidence sample_evidence();

}  // namespace rehearse::harness
