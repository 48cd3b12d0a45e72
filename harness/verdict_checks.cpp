#include "harness/verdict_checks.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <tuple>

namespace rehearse::harness {
namespace {

using State = CheckResult::State;

CheckResult passed(std::string check, std::string expected, std::string actual) {
  return {State::passed, std::move(check), std::move(expected), std::move(actual), {}};
}
CheckResult failed(std::string check, std::string expected, std::string actual,
                   std::string where = {}) {
  return {State::failed, std::move(check), std::move(expected), std::move(actual),
          std::move(where)};
}
CheckResult unchecked(std::string check, std::string why) {
  return {State::unchecked, std::move(check), {}, std::move(why), {}};
}

std::string failure_text(const Failure& failure) {
  const std::string where = failure.worker.empty() ? "" : " on " + failure.worker;
  return fmt::format("{}{}: {}", name(failure.code), where, failure.message);
}

/// What became of a worker, in a few words; empty if it finished.
std::string end_of(const WorkerOutcome& worker) {
  if (worker.killed && worker.signal != 0 && worker.signal != SIGKILL) {
    return fmt::format("ended by signal {} ({})", worker.signal, ::strsignal(worker.signal));
  }
  if (worker.killed) return "was killed";
  if (worker.failure) return "failed with " + failure_text(*worker.failure);
  if (worker.signal != 0) return fmt::format("ended by signal {}", worker.signal);
  if (worker.exit_code != 0) return fmt::format("exited with {}", worker.exit_code);
  return worker.finished ? "" : "did not finish";
}

CheckResult check_completes(const RunOutcome& outcome) {
  const std::string expected = "every worker finishes";
  // Who ended first is the cause; the others may have failed for lack of it.
  const WorkerOutcome* first = nullptr;
  for (const WorkerOutcome& worker : outcome.workers) {
    if (end_of(worker).empty()) continue;
    if (!first || (worker.ended && first->ended && *worker.ended < *first->ended)) first = &worker;
  }
  if (first) return failed("outcome", expected, first->name + " " + end_of(*first), first->name);
  return passed("outcome", expected, fmt::format("{} workers finished", outcome.workers.size()));
}

std::vector<int> ranks_of(const FaultTarget& target, const RunOutcome& outcome) {
  if (target.kind == FaultTarget::Kind::ranks) return target.ranks;
  std::vector<int> all;
  for (const WorkerOutcome& worker : outcome.workers) all.push_back(worker.rank);
  return all;
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

/// Whether `text` has the worker's name as a word: "w1" is not named by "w12".
bool names_worker(const std::string& text, const std::string& worker) {
  for (std::size_t at = text.find(worker); at != std::string::npos;
       at = text.find(worker, at + 1)) {
    const std::size_t end = at + worker.size();
    const bool starts = at == 0 || !std::isalnum(static_cast<unsigned char>(text[at - 1]));
    if (starts && (end == text.size() || !is_digit(text[end]))) return true;
  }
  return false;
}

std::optional<Time> first_fault(const RunOutcome& outcome) {
  std::optional<Time> first;
  for (const FaultOutcome& fault : outcome.faults) {
    if (fault.fired > 0 && (!first || fault.first_fired < *first)) first = fault.first_fired;
  }
  return first;
}

/// Why the worker's failure is not what is expected; empty if it is.
std::string mismatch(const WorkerOutcome& worker, const ExpectedOutcome& expected,
                     const RunOutcome& outcome) {
  if (!worker.failure) return worker.finished ? "finished" : end_of(worker);
  if (worker.failure->code != expected.fails_with) return end_of(worker);
  if (expected.names) {
    // Where it happened is no name of who is to blame, if that is the worker itself.
    const bool elsewhere = worker.failure->worker != worker.name;
    const std::string text =
        worker.failure->message + (elsewhere ? " " + worker.failure->worker : "");
    for (const int rank : ranks_of(*expected.names, outcome)) {
      if (!names_worker(text, worker_name(rank))) {
        return fmt::format("{}, which does not name {}", end_of(worker), worker_name(rank));
      }
    }
  }
  if (!expected.within) return {};
  const auto fired = first_fault(outcome);
  if (!worker.ended || !fired) return end_of(worker) + ", at an unknown time after the fault";
  const Duration took = *worker.ended - *fired;
  if (took <= *expected.within) return {};
  return fmt::format("{}, {} after the first fault", end_of(worker), format_duration(took));
}

std::string expectation(const ExpectedOutcome& expected) {
  std::string text = fmt::format("fails with {}", name(expected.fails_with));
  if (expected.on) text += " on " + to_text(*expected.on);
  if (expected.names) text += ", naming " + to_text(*expected.names);
  if (expected.within) text += " within " + format_duration(*expected.within);
  return text;
}

/// With `on`, all of these must fail so; without, one surviving worker.
CheckResult check_fails(const ExpectedOutcome& expected, const RunOutcome& outcome) {
  const auto asked = expected.on ? ranks_of(*expected.on, outcome) : std::vector<int>();
  const auto is_asked = [&](int rank) {
    return std::find(asked.begin(), asked.end(), rank) != asked.end();
  };
  std::string met, unmet, unmet_on;
  for (const WorkerOutcome& worker : outcome.workers) {
    if (worker.killed && !is_asked(worker.rank)) continue;
    if (expected.on && !is_asked(worker.rank)) continue;
    const std::string why = mismatch(worker, expected, outcome);
    if (why.empty() && met.empty()) met = worker.name + " " + end_of(worker);
    if (!why.empty() && unmet.empty()) {
      unmet = worker.name + " " + why;
      unmet_on = worker.name;
    }
  }
  const bool holds = expected.on ? unmet.empty() && !met.empty() : !met.empty();
  if (holds) return passed("outcome", expectation(expected), met);
  return failed("outcome", expectation(expected), unmet.empty() ? "no worker is left" : unmet,
                unmet_on);
}

auto key_of(const JournalEntry& entry) {
  return std::tie(entry.step, entry.creator, entry.ordinal, entry.pass, entry.owner, entry.leaf);
}

GradientPlace place_of(const JournalEntry& entry) {
  return {entry.owner,
          fmt::format("step {}, context {} of {}, pass {}", entry.step, entry.ordinal,
                      worker_name(entry.creator), entry.pass),
          fmt::format("leaf {}", entry.leaf), std::nullopt};
}

struct Comparison {
  std::uint64_t missing = 0;
  GradientReport& report;

  void differs(const JournalEntry& entry) {
    ++report.different;
    if (!report.first_difference) report.first_difference = place_of(entry);
  }
};

/// Every entry of the run against the oracle's of the same key. Entries that only the oracle has
/// are missing: a difference if `complete`.
void compare(std::vector<JournalEntry> run, std::vector<JournalEntry> oracle, bool complete,
             Comparison& comparison) {
  std::sort(run.begin(), run.end());
  std::sort(oracle.begin(), oracle.end());
  auto expected = oracle.begin();
  for (auto entry = run.begin(); entry != run.end(); ++entry) {
    for (; expected != oracle.end() && key_of(*expected) < key_of(*entry); ++expected) {
      const bool seen = entry != run.begin() && key_of(*std::prev(entry)) == key_of(*expected);
      if (seen) continue;
      ++comparison.missing;
      if (complete) comparison.differs(*expected);
    }
    ++comparison.report.compared;
    const bool known = expected != oracle.end() && key_of(*expected) == key_of(*entry);
    if (!known || expected->digest != entry->digest) comparison.differs(*entry);
  }
  for (; expected != oracle.end(); ++expected) {
    if (!run.empty() && key_of(run.back()) == key_of(*expected)) continue;
    ++comparison.missing;
    if (complete) comparison.differs(*expected);
  }
}

/// Whether values whose bits differ are within the bound; what to say if not, or if nobody knows.
std::optional<std::string> beyond(const Closeness& closeness, const Distance& distance) {
  if (closeness.kind == Closeness::Kind::max_ulp && distance.max_ulp) {
    if (*distance.max_ulp <= closeness.max_ulp) return std::nullopt;
    return fmt::format("{} ULP apart", *distance.max_ulp);
  }
  if (closeness.kind == Closeness::Kind::relative && distance.relative) {
    if (*distance.relative <= closeness.relative) return std::nullopt;
    return fmt::format("{:.3g} apart, relatively", *distance.relative);
  }
  return closeness.kind == Closeness::Kind::bitwise ? "bits differ"
                                                    : "bits differ, and how far was not measured";
}

}  // namespace

bool all_finished(const RunOutcome& outcome) {
  return outcome.end == RunOutcome::End::done &&
         std::all_of(outcome.workers.begin(), outcome.workers.end(),
                     [](const WorkerOutcome& worker) { return end_of(worker).empty(); });
}

CheckResult check_hang(const RunOutcome& outcome) {
  const std::string expected = "no worker waits for ever";
  if (outcome.end != RunOutcome::End::hung) return passed("no_hang", expected, "none does");
  const std::string actual = outcome.waiting.empty() ? "the run hung" : to_text(outcome.waiting[0]);
  return failed("no_hang", expected, actual,
                outcome.waiting.empty() ? "" : outcome.waiting[0].worker);
}

CheckResult check_outcome(const Scenario& scenario, const RunOutcome& outcome) {
  const ExpectedOutcome& expected = scenario.expect.outcome;
  return expected.completes ? check_completes(outcome) : check_fails(expected, outcome);
}

CheckResult check_faults_fired(const Scenario& scenario, const RunOutcome& outcome) {
  const std::string expected = "every fault fires";
  for (std::size_t i = 0; i < scenario.faults.size(); ++i) {
    if (i < outcome.faults.size() && outcome.faults[i].fired > 0) continue;
    return failed("faults_fired", expected,
                  fmt::format("\"{}\" never fired", scenario.faults[i].id), scenario.faults[i].id);
  }
  return passed("faults_fired", expected, fmt::format("{} fired", scenario.faults.size()));
}

CheckResult check_leaks(const Expect& expect, const RunOutcome& outcome) {
  if (!expect.leaks_checked) return unchecked("leaks", "turned off by the scenario");
  std::string left;
  for (const auto& [counter, count] : outcome.counters) {
    if (!counter.ends_with("_live") || count == 0) continue;
    left += fmt::format("{}{} = {}", left.empty() ? "" : ", ", counter, count);
  }
  if (left.empty()) return passed("leaks", "nothing is left", "nothing is left");
  return failed("leaks", "nothing is left", left);
}

// The program cannot be run as one sequence of calls: a handler waits for one that the same task
// would only call later. There is nothing to compare with.
CheckResult not_sequential(const RunOutcome& oracle) {
  std::string who = "a handler waits for another";
  if (!oracle.waiting.empty()) {
    const WaitingTask& task = oracle.waiting.front();
    who = fmt::format("{} {} waits for {} from {}", task.worker, task.task, task.what, task.whom);
  }
  return failed("gradients", "equal to the uncut run's",
                "not_sequential: the uncut run, every call in place, waits for ever: " + who);
}

CheckResult check_gradients(const Case& run, const Evidence& evidence, GradientReport& report) {
  const Closeness& closeness = run.scenario.expect.gradients;
  report.digest = journal_digest(evidence.outcome.journal);
  report.tolerance = to_text(closeness);
  if (closeness.kind == Closeness::Kind::unchecked) {
    return unchecked("gradients", "turned off by the scenario");
  }
  if (!run.has_oracle || !evidence.oracle) return unchecked("gradients", "there is no oracle");
  if (evidence.oracle->end == RunOutcome::End::hung) return not_sequential(*evidence.oracle);
  const bool complete = all_finished(evidence.outcome);
  Comparison comparison{0, report};
  compare(evidence.outcome.journal, evidence.oracle->journal, complete, comparison);
  report.max_ulp = evidence.gradients.max_ulp;
  if (report.different == 0 && !report.max_ulp) report.max_ulp = 0;
  const std::string expected = "equal to the fault-free uncut run, " + report.tolerance;
  const std::string count =
      fmt::format("{} compared, {} different", report.compared, report.different);
  if (complete && report.compared == 0) {
    return failed("gradients", expected, "none was read, so that nothing was compared");
  }
  if (report.different == 0) return passed("gradients", expected, count);
  // A distance speaks of values that both runs have.
  const bool same_keys = comparison.missing == 0 || !complete;
  const auto why = beyond(closeness, evidence.gradients);
  if (same_keys && !why) return passed("gradients", expected, count);
  const GradientPlace& place = *report.first_difference;
  return failed("gradients", expected, fmt::format("{}: {}", count, why.value_or("missing")),
                fmt::format("w{}, {}, {}", place.rank, place.context, place.parameter));
}

CheckResult check_final_parameters(const Expect& expect, const Evidence& evidence) {
  const std::string check = "final_parameters";
  if (expect.final_parameters->kind == Closeness::Kind::unchecked) {
    return unchecked(check, "turned off by the scenario");
  }
  if (!evidence.oracle) return unchecked(check, "there is no oracle");
  const auto digest = [](const RunOutcome& outcome) -> std::optional<std::uint64_t> {
    const auto found = outcome.digests.find(kFinalParameters);
    if (found == outcome.digests.end()) return std::nullopt;
    return found->second;
  };
  const std::string expected = "equal to the fault-free run, " + to_text(*expect.final_parameters);
  const auto ours = digest(evidence.outcome), theirs = digest(*evidence.oracle);
  if (!ours || !theirs) {
    return failed(check, expected, ours ? "the oracle reported none" : "the run reported none");
  }
  if (*ours == *theirs) return passed(check, expected, "bits are equal");
  const auto why = beyond(*expect.final_parameters, evidence.final_parameters);
  return why ? failed(check, expected, *why) : passed(check, expected, "within the bound");
}

std::string to_text(const WaitingTask& waiting) {
  std::string text =
      fmt::format("{} task {} waits for {}", waiting.worker, waiting.task, waiting.what);
  if (!waiting.whom.empty()) text += " from " + waiting.whom;
  text += " since " + format_duration(waiting.since.time_since_epoch());
  const bool forever = waiting.deadline == kNever;
  return text + (forever ? ", without a deadline"
                         : ", deadline " + format_duration(waiting.deadline.time_since_epoch()));
}

std::string to_text(const Closeness& closeness) {
  switch (closeness.kind) {
    case Closeness::Kind::bitwise:
      return "bitwise";
    case Closeness::Kind::max_ulp:
      return fmt::format("max_ulp {}", closeness.max_ulp);
    case Closeness::Kind::relative:
      return fmt::format("relative {}", closeness.relative);
    case Closeness::Kind::unchecked:
      return "unchecked";
  }
  return "?";
}

std::string to_text(const FaultTarget& target) {
  if (target.kind == FaultTarget::Kind::everyone) return "everyone";
  if (target.kind == FaultTarget::Kind::link) {
    return fmt::format("the link w{} {} w{}", target.from, target.both ? "<->" : "->", target.to);
  }
  std::vector<std::string> names;
  for (const int rank : target.ranks) names.push_back(worker_name(rank));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace rehearse::harness
