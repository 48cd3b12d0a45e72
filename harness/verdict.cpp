#include "harness/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/verdict_checks.hpp"
#include "runtime/base/random.hpp"

namespace rehearse::harness {
namespace {

using State = CheckResult::State;

const CheckResult* find_failed(const CaseResult& result, std::string_view check) {
  for (const CheckResult& candidate : result.checks) {
    if (candidate.name == check && candidate.state == State::failed) return &candidate;
  }
  return nullptr;
}

bool any_failed_but(const CaseResult& result, std::initializer_list<std::string_view> excused) {
  return std::any_of(result.checks.begin(), result.checks.end(), [&](const CheckResult& check) {
    return check.state == State::failed &&
           std::find(excused.begin(), excused.end(), check.name) == excused.end();
  });
}

/// A fault that never fired explains a failure that was expected and did not come, and nothing
/// else.
bool only_not_fired(const CaseResult& result) {
  if (!find_failed(result, "faults_fired")) return false;
  const bool outcome_excused =
      !result.run.scenario.expect.outcome.completes && all_finished(result.outcome);
  return outcome_excused ? !any_failed_but(result, {"faults_fired", "outcome"})
                         : !any_failed_but(result, {"faults_fired"});
}

Verdict verdict_of(const CaseResult& result) {
  if (result.outcome.end == RunOutcome::End::timed_out) return Verdict::timed_out;
  if (only_not_fired(result)) return Verdict::not_fired;
  return any_failed_but(result, {}) ? Verdict::failed : Verdict::passed;
}

std::string sentence(const CheckResult& check) {
  const std::string where = check.where.empty() ? "" : fmt::format(" ({})", check.where);
  return fmt::format("{}: {}{}, expected: {}", check.name, check.actual, where, check.expected);
}

std::string cause_of(const CaseResult& result) {
  if (result.verdict == Verdict::passed) return {};
  if (result.verdict == Verdict::timed_out) {
    return "the wall time was up" +
           (result.outcome.waiting.empty() ? "" : ": " + to_text(result.outcome.waiting[0]));
  }
  if (result.verdict == Verdict::not_fired) return sentence(*find_failed(result, "faults_fired"));
  for (const CheckResult& check : result.checks) {
    if (check.state == State::failed) return sentence(check);
  }
  return {};
}

std::string event_text(const StampedEvent& event) {
  return fmt::format("{} of w{} at {} (peer {}, subject {:#x}, amount {:#x})",
                     name(event.event.kind), event.rank,
                     format_duration(event.time.time_since_epoch()), event.event.peer,
                     event.event.subject, event.event.amount);
}

bool same(const StampedEvent& a, const StampedEvent& b) {
  return a.event.kind == b.event.kind && a.event.peer == b.event.peer &&
         a.event.subject == b.event.subject && a.event.amount == b.event.amount &&
         a.rank == b.rank && a.step == b.step && a.time == b.time;
}

std::string first_event_difference(const RunOutcome& a, const RunOutcome& b) {
  const std::size_t shorter = std::min(a.events.size(), b.events.size());
  for (std::size_t i = 0; i < shorter; ++i) {
    if (same(a.events[i], b.events[i])) continue;
    return fmt::format("event {}: {} in the first run, {} in the second", i,
                       event_text(a.events[i]), event_text(b.events[i]));
  }
  if (a.events.size() == b.events.size()) return {};
  const auto& longer = a.events.size() > shorter ? a.events : b.events;
  return fmt::format("event {}: {} in one run only", shorter, event_text(longer[shorter]));
}

/// Where two runs differ first, in words; empty if nowhere.
std::string difference(const RunOutcome& a, const RunOutcome& b, bool is_virtual) {
  if (is_virtual) {
    std::string event = first_event_difference(a, b);
    if (!event.empty()) return event;
    for (std::size_t i = 0; i < std::min(a.workers.size(), b.workers.size()); ++i) {
      if (a.workers[i].digest != b.workers[i].digest) return a.workers[i].name + "'s events differ";
    }
    if (a.digest != b.digest) return "the digests of the event logs differ";
  }
  if (journal_digest(a.journal) != journal_digest(b.journal)) return "the gradients differ";
  if (a.digests != b.digests) return "the final parameters differ";
  return {};
}

}  // namespace

std::uint64_t journal_digest(std::vector<JournalEntry> journal) {
  std::sort(journal.begin(), journal.end());
  Hash64 hash;
  hash.add(journal.size());
  for (const JournalEntry& entry : journal) {
    hash.add(static_cast<std::uint64_t>(entry.step)).add(entry.creator).add(entry.ordinal);
    hash.add(entry.pass).add(entry.owner).add(entry.leaf).add(entry.digest);
  }
  return hash.value();
}

CaseResult judge(const Case& run, Evidence evidence) {
  CaseResult result;
  result.run = run;
  const Scenario& scenario = run.scenario;
  const RunOutcome& outcome = evidence.outcome;
  result.checks = {check_hang(outcome), check_outcome(scenario, outcome),
                   check_faults_fired(scenario, outcome), check_leaks(scenario.expect, outcome),
                   check_gradients(run, evidence, result.gradients)};
  if (scenario.expect.final_parameters) {
    result.checks.push_back(check_final_parameters(scenario.expect, evidence));
  }
  result.outcome = std::move(evidence.outcome);
  result.verdict = verdict_of(result);
  result.first_cause = cause_of(result);
  return result;
}

CaseResult judge_determinism(CaseResult first, const RunOutcome& second) {
  const bool is_virtual = first.run.world != WorldKind::processes;
  const std::string where = difference(first.outcome, second, is_virtual);
  CheckResult check{State::passed, "deterministic", "a second run is the same", "it is", {}};
  if (!where.empty()) {
    check.state = State::failed;
    check.actual = where;
    if (first.verdict == Verdict::passed) {
      first.verdict = Verdict::not_deterministic;
      first.first_cause = sentence(check);
    }
  }
  first.checks.push_back(std::move(check));
  return first;
}

}  // namespace rehearse::harness
