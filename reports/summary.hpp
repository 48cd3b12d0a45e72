#pragma once

#include <string>
#include <vector>

#include "harness/case.hpp"

namespace rehearse::reports {

inline constexpr int kSummaryLines = 15;

/// What a person reads after a run: at most `kSummaryLines` lines, failures last, each with its
/// cause and one line to copy that reproduces it.
std::string summary(const std::vector<harness::CaseResult>& results, bool colours);

}  // namespace rehearse::reports
