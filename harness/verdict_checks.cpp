#include "harness/verdict_checks.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "harness/journal_comparison.hpp"

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

GradientPlace place_of(const JournalEntry& entry, std::optional<std::int64_t> index) {
  return {entry.owner,
          fmt::format("step {}, context {} of {}, pass {}", entry.step, entry.ordinal,
                      worker_name(entry.creator), entry.pass),
          fmt::format("leaf {}", entry.leaf), index};
}

std::string where_of(const GradientPlace& place) {
  const std::string index = place.index ? fmt::format(", element {}", *place.index) : "";
  return fmt::format("w{}, {}, {}{}", place.rank, place.context, place.parameter, index);
}

// Handlers passed tensors with history to each other by other ways than calls.
std::int64_t edges_against_the_order(const RunOutcome& outcome) {
  const auto found = outcome.counters.find("not_sequential");
  return found == outcome.counters.end() ? 0 : found->second;
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
  const std::string expected = "equal to the fault-free uncut run, " + report.tolerance;
  if (const auto edges = edges_against_the_order(evidence.outcome)) {
    return failed("gradients", expected,
                  fmt::format("not_sequential: data flowed against the order of the program along "
                              "{} edges of its graph: handlers passed tensors with history to "
                              "each other by other ways than calls",
                              edges));
  }
  const bool complete = all_finished(evidence.outcome);
  const JournalComparison compared =
      compare(evidence.outcome.journal, evidence.oracle->journal, complete, closeness);
  report.compared = compared.compared;
  report.different = compared.different;
  report.max_ulp = compared.max_ulp;
  if (compared.first) report.first_difference = place_of(*compared.first, compared.index);
  const std::string count =
      fmt::format("{} compared, {} different", report.compared, report.different);
  if (complete && report.compared == 0) {
    return failed("gradients", expected, "none was read, so that nothing was compared");
  }
  if (compared.why.empty()) return passed("gradients", expected, count);
  return failed("gradients", expected, fmt::format("{}: {}", count, compared.why),
                where_of(*report.first_difference));
}

CheckResult check_final_parameters(const Expect& expect, const Evidence& evidence) {
  const std::string check = "final_parameters";
  const Closeness& closeness = *expect.final_parameters;
  if (closeness.kind == Closeness::Kind::unchecked) {
    return unchecked(check, "turned off by the scenario");
  }
  if (!evidence.oracle) return unchecked(check, "there is no oracle");
  const auto& ours = evidence.outcome.final_parameters;
  const auto& theirs = evidence.oracle->final_parameters;
  const std::string expected = "equal to the fault-free run, " + to_text(closeness);
  if (ours.empty() || theirs.empty()) {
    return failed(check, expected,
                  ours.empty() ? "the run reported none" : "the oracle reported none");
  }
  const JournalComparison compared = compare(ours, theirs, true, closeness);
  if (compared.different == 0) return passed(check, expected, "bits are equal");
  if (compared.why.empty()) return passed(check, expected, "within the bound");
  const std::string element =
      compared.index ? fmt::format(", element {}", *compared.index) : std::string();
  return failed(check, expected, compared.why,
                fmt::format("{}, parameter {}{}", worker_name(compared.first->owner),
                            compared.first->leaf, element));
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
