#include "harness/case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace rehearse::harness {
namespace {

struct VerdictRow {
  std::string_view name;
  int code;
};
constexpr std::array<VerdictRow, kVerdicts> kRows = {{{"passed", 0},
                                                      {"failed", 1},
                                                      {"harness_error", 3},
                                                      {"not_deterministic", 4},
                                                      {"not_fired", 6},
                                                      {"unrecoverable", 7},
                                                      {"skipped", 77},
                                                      {"timed_out", 124}}};

}  // namespace

std::string Case::name() const {
  const std::string_view world_name = harness::name(world);
  return repeats > 1 ? fmt::format("{}#{}", world_name, repeat) : std::string(world_name);
}

std::string_view name(Verdict verdict) { return kRows.at(static_cast<std::size_t>(verdict)).name; }
int exit_code(Verdict verdict) { return kRows.at(static_cast<std::size_t>(verdict)).code; }

int exit_code(const std::vector<Verdict>& verdicts) {
  const auto present = [&](int code) {
    return std::any_of(verdicts.begin(), verdicts.end(),
                       [&](Verdict verdict) { return exit_code(verdict) == code; });
  };
  for (const int code : {3, 124, 1, 4, 6, 7}) {
    if (present(code)) return code;
  }
  return present(77) && !present(0) ? 77 : 0;
}

std::string_view name(CheckResult::State state) {
  constexpr std::array<std::string_view, 3> kNames = {"passed", "failed", "unchecked"};
  return kNames.at(static_cast<std::size_t>(state));
}

std::vector<std::string> check_names() {
  return {"no_hang",   "outcome",          "faults_fired", "leaks",
          "gradients", "final_parameters", "deterministic"};
}

CaseResult without_run(const Case& run, Verdict verdict, const std::string& why) {
  CaseResult result;
  result.run = run;
  result.verdict = verdict;
  (verdict == Verdict::skipped ? result.skip_reason : result.first_cause) = why;
  return result;
}

}  // namespace rehearse::harness
