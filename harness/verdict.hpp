#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/case.hpp"

namespace rehearse::harness {

/// What there is to judge by.
struct Evidence {
  RunOutcome outcome;
  std::optional<RunOutcome> oracle;  ///< of the fault-free, uncut run of the same seed
};

/// Checks the outcome against what the scenario expects. Pure.
CaseResult judge(const Case& run, Evidence evidence);

/// `first`, with one check more: that `second`, of the same case, is the same. In virtual worlds
/// all digests are compared, and events if both runs kept them; in processes only what must agree
/// across worlds.
CaseResult judge_determinism(CaseResult first, const RunOutcome& second);

/// Of the sorted journal: what `gradients.digest` of a report is.
std::uint64_t journal_digest(std::vector<JournalEntry> journal);

/// The name under which `RunOutcome::digests` has the parameters after the last step.
inline constexpr const char* kFinalParameters = "final_parameters";

}  // namespace rehearse::harness
