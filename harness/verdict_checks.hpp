#pragma once

#include "harness/verdict.hpp"

/// The single checks; used by verdict.cpp and its tests. Each looks at one thing and says what was
/// expected and what came.
namespace rehearse::harness {

CheckResult check_hang(const RunOutcome& outcome);
CheckResult check_outcome(const Scenario& scenario, const RunOutcome& outcome);
CheckResult check_faults_fired(const Scenario& scenario, const RunOutcome& outcome);
CheckResult check_leaks(const Expect& expect, const RunOutcome& outcome);
CheckResult check_gradients(const Case& run, const Evidence& evidence, GradientReport& report);
/// REQUIRES: the scenario asks for it.
CheckResult check_final_parameters(const Expect& expect, const Evidence& evidence);

/// True if every worker finished: then nothing may be missing.
bool all_finished(const RunOutcome& outcome);

/// "w0 task main waits for reply to add from w2 since 1.5s, deadline 60s".
std::string to_text(const WaitingTask& waiting);
std::string to_text(const Closeness& closeness);
/// "ranks 1, 2", "link 0 -> 1", "everyone".
std::string to_text(const FaultTarget& target);

}  // namespace rehearse::harness
