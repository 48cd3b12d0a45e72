#include "harness/verdict.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/harness/samples.hpp"

namespace rehearse::harness {
namespace {

const CheckResult& check(const CaseResult& result, const std::string& wanted) {
  for (const CheckResult& candidate : result.checks) {
    if (candidate.name == wanted) return candidate;
  }
  throw std::logic_error("no check " + wanted);
}

/// `sample_case` expecting that w0 fails with peer_lost naming w2, and a run in which that happens.
Case case_that_fails() {
  Case run = sample_case();
  ExpectedOutcome& expected = run.scenario.expect.outcome;
  expected.completes = false;
  expected.fails_with = Code::peer_lost;
  expected.names = FaultTarget{FaultTarget::Kind::ranks, {2}, 0, 0, false};
  return run;
}

Evidence evidence_of_failure() {
  Evidence evidence = sample_evidence();
  auto& workers = evidence.outcome.workers;
  workers[2].finished = false;
  workers[2].killed = true;
  workers[0].finished = false;
  workers[0].failure = Failure{Code::peer_lost, "w2 is lost: killed", "w0", 0};
  workers[0].ended = Time(std::chrono::milliseconds(600));
  evidence.outcome.journal.resize(5);
  return evidence;
}

TEST(Verdict, PassesWhenEverythingHolds) {
  const CaseResult result = judge(sample_case(), sample_evidence());
  EXPECT_EQ(result.verdict, Verdict::passed) << result.first_cause;
  EXPECT_EQ(result.gradients.compared, 12u);
  EXPECT_EQ(result.gradients.different, 0u);
  EXPECT_EQ(result.gradients.max_ulp, 0);
  EXPECT_EQ(result.first_cause, "");
}

TEST(Verdict, OneWrongDigestFailsAndIsPlaced) {
  Evidence evidence = sample_evidence();
  evidence.outcome.journal[6].digest += 1;
  const CaseResult result = judge(sample_case(), evidence);
  EXPECT_EQ(result.verdict, Verdict::failed);
  EXPECT_EQ(result.gradients.different, 1u);
  ASSERT_TRUE(result.gradients.first_difference);
  EXPECT_EQ(result.gradients.first_difference->rank, 2);
  EXPECT_EQ(result.gradients.first_difference->context, "step 1, context 0 of w0, pass 0");
  EXPECT_EQ(result.gradients.first_difference->parameter, "leaf 6");
  EXPECT_NE(result.first_cause.find("12 compared, 1 different"), std::string::npos);
}

// Every single change of a journal is noticed, whatever its order.
RC_GTEST_PROP(VerdictProperty, AnyChangedEntryIsADifference, ()) {
  Evidence evidence = sample_evidence();
  auto& journal = evidence.outcome.journal;
  auto& entry = journal[*rc::gen::inRange<std::size_t>(0, journal.size())];
  switch (*rc::gen::inRange(0, 4)) {
    case 0:
      entry.digest ^= *rc::gen::inRange<std::uint64_t>(1, 1000);
      break;
    case 1:
      entry.leaf += 1000;
      break;
    case 2:
      entry.step += 1000;
      break;
    default:
      entry = journal.back();
      journal.pop_back();
  }
  std::reverse(journal.begin(), journal.end());
  RC_ASSERT(judge(sample_case(), evidence).verdict == Verdict::failed);
}

// An attempt that repeats a key with the same bits is fine; with other bits it is not.
TEST(Verdict, RepeatedKeysMustHaveTheSameBits) {
  Evidence evidence = sample_evidence();
  evidence.outcome.journal.push_back(evidence.outcome.journal[3]);
  EXPECT_EQ(judge(sample_case(), evidence).verdict, Verdict::passed);
  evidence.outcome.journal.back().digest += 1;
  EXPECT_EQ(judge(sample_case(), evidence).verdict, Verdict::failed);
}

TEST(Verdict, ACompleteRunMayMissNoEntry) {
  Evidence evidence = sample_evidence();
  evidence.outcome.journal.pop_back();
  EXPECT_EQ(judge(sample_case(), evidence).verdict, Verdict::failed);
}

TEST(Verdict, ACompleteRunThatReadNoGradientShowsNothing) {
  Evidence evidence = sample_evidence();
  evidence.outcome.journal.clear();
  evidence.oracle->journal.clear();
  const CaseResult result = judge(sample_case(), evidence);
  EXPECT_EQ(check(result, "gradients").state, CheckResult::State::failed);
}

// A line whose numbers are `apart` floats from the oracle's, in the second of two elements.
void move_apart(JournalEntry& ours, JournalEntry& theirs, std::uint32_t apart) {
  const auto values = [](std::uint32_t bits) {
    Bytes bytes{static_cast<std::byte>(Element::float32)};
    for (const std::uint32_t element : {0x3f800000u, bits}) {
      const auto raw = std::as_bytes(std::span(&element, 1));
      bytes.insert(bytes.end(), raw.begin(), raw.end());
    }
    return bytes;
  };
  ours.values = values(0x40000000u + apart);
  theirs.values = values(0x40000000u);
  ours.digest = theirs.digest + 1;
}

TEST(Verdict, ABoundIsHeldOrExceededByTheValuesThemselves) {
  Case run = sample_case();
  run.scenario.expect.gradients = {Closeness::Kind::max_ulp, 4, 0};
  Evidence evidence = sample_evidence();
  move_apart(evidence.outcome.journal[3], evidence.oracle->journal[3], 4);
  const CaseResult within = judge(run, evidence);
  EXPECT_EQ(within.verdict, Verdict::passed) << within.first_cause;
  EXPECT_EQ(within.gradients.max_ulp, 4);
  EXPECT_EQ(within.gradients.tolerance, "max_ulp 4");
  move_apart(evidence.outcome.journal[6], evidence.oracle->journal[6], 5);
  const CaseResult beyond = judge(run, evidence);
  EXPECT_EQ(beyond.verdict, Verdict::failed);
  EXPECT_EQ(beyond.gradients.max_ulp, 5);
  EXPECT_EQ(beyond.gradients.different, 2u);
  ASSERT_TRUE(beyond.gradients.first_difference);
  EXPECT_EQ(beyond.gradients.first_difference->parameter, "leaf 6") << "the first beyond the bound";
  EXPECT_EQ(beyond.gradients.first_difference->index, 1);
  EXPECT_TRUE(check(beyond, "gradients").actual.ends_with("5 ULP apart"));
}

TEST(Verdict, ARelativeBoundIsOfTheLargestElement) {
  Case run = sample_case();
  run.scenario.expect.gradients = {Closeness::Kind::relative, 0, 1e-6};
  Evidence evidence = sample_evidence();
  move_apart(evidence.outcome.journal[0], evidence.oracle->journal[0], 8);  // 8 * 2^-22 of 2
  EXPECT_EQ(judge(run, evidence).verdict, Verdict::passed);
  move_apart(evidence.outcome.journal[0], evidence.oracle->journal[0], 16);
  const CaseResult result = judge(run, evidence);
  EXPECT_EQ(check(result, "gradients").actual,
            "12 compared, 1 different: 1.91e-06 apart, relatively");
}

TEST(Verdict, OtherBitsOfUnknownValuesExceedEveryBound) {
  Case run = sample_case();
  run.scenario.expect.gradients = {Closeness::Kind::max_ulp, 4, 0};
  Evidence evidence = sample_evidence();
  evidence.outcome.journal[0].digest += 1;
  const CaseResult result = judge(run, evidence);
  EXPECT_EQ(result.verdict, Verdict::failed);
  EXPECT_FALSE(result.gradients.max_ulp);
}

TEST(Verdict, FinalParametersHaveABoundToo) {
  Case run = sample_case();
  run.scenario.expect.final_parameters = {Closeness::Kind::max_ulp, 4, 0};
  Evidence evidence = sample_evidence();
  move_apart(evidence.outcome.final_parameters[1], evidence.oracle->final_parameters[1], 4);
  EXPECT_EQ(judge(run, evidence).verdict, Verdict::passed);
  move_apart(evidence.outcome.final_parameters[1], evidence.oracle->final_parameters[1], 5);
  const CaseResult result = judge(run, evidence);
  EXPECT_EQ(check(result, "final_parameters").actual, "5 ULP apart");
  EXPECT_EQ(check(result, "final_parameters").where, "w1, parameter 0, element 1");
}

// Equal bits would be luck: the sums have no order that they must keep.
TEST(Verdict, DataAgainstTheOrderOfTheProgramIsNamed) {
  Evidence evidence = sample_evidence();
  evidence.outcome.counters["not_sequential"] = 2;
  const CaseResult result = judge(sample_case(), evidence);
  EXPECT_EQ(result.verdict, Verdict::failed);
  EXPECT_TRUE(check(result, "gradients").actual.starts_with("not_sequential: "))
      << result.first_cause;
}

TEST(Verdict, UncheckedIsSaid) {
  Case run = sample_case();
  run.scenario.expect.gradients.kind = Closeness::Kind::unchecked;
  Evidence evidence = sample_evidence();
  evidence.outcome.journal[0].digest += 1;
  const CaseResult result = judge(run, evidence);
  EXPECT_EQ(result.verdict, Verdict::passed);
  EXPECT_EQ(check(result, "gradients").state, CheckResult::State::unchecked);
}

TEST(Verdict, AnythingLeftAliveIsALeak) {
  Evidence evidence = sample_evidence();
  evidence.outcome.counters["passes_live"] = 1;
  const CaseResult result = judge(sample_case(), evidence);
  EXPECT_EQ(result.verdict, Verdict::failed);
  EXPECT_NE(result.first_cause.find("passes_live = 1"), std::string::npos);
}

TEST(Verdict, AHungRunFailsAndSaysWhoWaits) {
  Evidence evidence = sample_evidence();
  evidence.outcome.end = RunOutcome::End::hung;
  evidence.outcome.waiting = {{"w0", "main", Duty::foreground, "reply to add", "w2",
                               Time(std::chrono::seconds(1)), kNever}};
  const CaseResult result = judge(sample_case(), evidence);
  EXPECT_EQ(result.verdict, Verdict::failed);
  EXPECT_EQ(exit_code(result.verdict), 1);
  EXPECT_NE(result.first_cause.find("w0 task main waits for reply to add from w2 since 1s"),
            std::string::npos)
      << result.first_cause;
}

TEST(Verdict, TimedOutIsItsOwnVerdict) {
  Evidence evidence = sample_evidence();
  evidence.outcome.end = RunOutcome::End::timed_out;
  EXPECT_EQ(judge(sample_case(), evidence).verdict, Verdict::timed_out);
}

TEST(Verdict, AFaultThatNeverFiredIsNoPass) {
  Evidence evidence = sample_evidence();
  evidence.outcome.faults = {{0, Time()}};
  const CaseResult result = judge(sample_case(), evidence);
  EXPECT_EQ(result.verdict, Verdict::not_fired);
  EXPECT_NE(result.first_cause.find("\"worker-dies\" never fired"), std::string::npos);
}

// A fault that did not fire explains a missing failure, but no wrong gradient.
TEST(Verdict, NotFiredDoesNotHideAWrongGradient) {
  Evidence evidence = sample_evidence();
  evidence.outcome.faults = {{0, Time()}};
  EXPECT_EQ(judge(case_that_fails(), evidence).verdict, Verdict::not_fired);
  evidence.outcome.journal[0].digest += 1;
  EXPECT_EQ(judge(case_that_fails(), evidence).verdict, Verdict::failed);
}

TEST(Verdict, AKilledWorkerDoesNotComplete) {
  EXPECT_EQ(judge(sample_case(), evidence_of_failure()).verdict, Verdict::failed);
}

// The expected failure passes; entries that the killed run lacks are no difference.
TEST(Verdict, TheExpectedFailurePasses) {
  const CaseResult result = judge(case_that_fails(), evidence_of_failure());
  EXPECT_EQ(result.verdict, Verdict::passed) << result.first_cause;
  EXPECT_EQ(result.gradients.compared, 5u);
}

TEST(Verdict, AWrongEntryBeforeTheKillIsStillWrong) {
  Evidence evidence = evidence_of_failure();
  evidence.outcome.journal[1].digest += 1;
  EXPECT_EQ(judge(case_that_fails(), evidence).verdict, Verdict::failed);
}

TEST(Verdict, AnotherCodeIsNotTheExpectedFailure) {
  Evidence evidence = evidence_of_failure();
  evidence.outcome.workers[0].failure->code = Code::timed_out;
  EXPECT_EQ(judge(case_that_fails(), evidence).verdict, Verdict::failed);
}

TEST(Verdict, TheFailureMustNameTheRightWorker) {
  Evidence evidence = evidence_of_failure();
  for (const char* text : {"w1 is lost", "w23 is lost", "somebody is lost", "aw2 is lost"}) {
    evidence.outcome.workers[0].failure->message = text;
    EXPECT_EQ(judge(case_that_fails(), evidence).verdict, Verdict::failed) << text;
  }
}

TEST(Verdict, OnSaysWhoMustFail) {
  Case run = case_that_fails();
  run.scenario.expect.outcome.on = FaultTarget{FaultTarget::Kind::ranks, {0}, 0, 0, false};
  EXPECT_EQ(judge(run, evidence_of_failure()).verdict, Verdict::passed);
  run.scenario.expect.outcome.on->ranks = {1};
  const CaseResult result = judge(run, evidence_of_failure());
  EXPECT_EQ(result.verdict, Verdict::failed);
  EXPECT_NE(result.first_cause.find("w1 finished"), std::string::npos) << result.first_cause;
}

// The bound counts from the fault (at 0.5 s) to the failure (at 0.6 s), in world time.
TEST(Verdict, WithinCountsFromTheFault) {
  Case run = case_that_fails();
  run.scenario.expect.outcome.within = std::chrono::milliseconds(100);
  EXPECT_EQ(judge(run, evidence_of_failure()).verdict, Verdict::passed);
  run.scenario.expect.outcome.within = std::chrono::milliseconds(99);
  EXPECT_EQ(judge(run, evidence_of_failure()).verdict, Verdict::failed);
}

TEST(Verdict, FinalParametersAreComparedWhereAskedFor) {
  Case run = sample_case();
  run.scenario.expect.final_parameters = Closeness();
  Evidence evidence = sample_evidence();
  EXPECT_EQ(judge(run, evidence).verdict, Verdict::passed);
  evidence.outcome.final_parameters[2].digest += 1;
  EXPECT_EQ(judge(run, evidence).verdict, Verdict::failed);
  evidence.outcome.final_parameters.clear();
  EXPECT_NE(judge(run, evidence).first_cause.find("reported none"), std::string::npos);
}

TEST(Determinism, EqualRunsPass) {
  const CaseResult first = judge(sample_case(), sample_evidence());
  EXPECT_EQ(judge_determinism(first, sample_evidence().outcome).verdict, Verdict::passed);
}

TEST(Determinism, TheFirstDifferingEventIsShown) {
  Evidence evidence = sample_evidence();
  StampedEvent event;
  event.event.kind = EventKind::received;
  event.rank = 1;
  evidence.outcome.events = {event, event};
  RunOutcome second = evidence.outcome;
  second.events[1].rank = 3;
  const CaseResult result = judge_determinism(judge(sample_case(), evidence), second);
  EXPECT_EQ(result.verdict, Verdict::not_deterministic);
  EXPECT_EQ(exit_code(result.verdict), 4);
  EXPECT_NE(result.first_cause.find("event 1: received of w1"), std::string::npos)
      << result.first_cause;
}

TEST(Determinism, WorkersAreComparedOneByOne) {
  RunOutcome second = sample_evidence().outcome;
  second.workers[3].digest += 1;
  const CaseResult result = judge_determinism(judge(sample_case(), sample_evidence()), second);
  EXPECT_EQ(result.verdict, Verdict::not_deterministic);
  EXPECT_NE(result.first_cause.find("w3's events differ"), std::string::npos);
}

// Real processes promise the same gradients, not the same order of events.
TEST(Determinism, ProcessesMustAgreeOnResultsOnly) {
  Case run = sample_case();
  run.world = WorldKind::processes;
  RunOutcome second = sample_evidence().outcome;
  second.digest += 1;
  second.workers[0].digest += 1;
  EXPECT_EQ(judge_determinism(judge(run, sample_evidence()), second).verdict, Verdict::passed);
  second.journal[0].digest += 1;
  EXPECT_EQ(judge_determinism(judge(run, sample_evidence()), second).verdict,
            Verdict::not_deterministic);
}

TEST(ExitCodes, AreThoseOfTheVerdicts) {
  EXPECT_EQ(exit_code(Verdict::passed), 0);
  EXPECT_EQ(exit_code(Verdict::failed), 1);
  EXPECT_EQ(exit_code(Verdict::harness_error), 3);
  EXPECT_EQ(exit_code(Verdict::not_deterministic), 4);
  EXPECT_EQ(exit_code(Verdict::not_fired), 6);
  EXPECT_EQ(exit_code(Verdict::unrecoverable), 7);
  EXPECT_EQ(exit_code(Verdict::skipped), 77);
  EXPECT_EQ(exit_code(Verdict::timed_out), 124);
}

// The first present of 3, 124, 1, 4, 6, 7; skips count as passed unless nothing ran.
TEST(ExitCodes, OfSeveralTheFirstPresent) {
  std::vector<Verdict> verdicts = {Verdict::skipped, Verdict::passed};
  EXPECT_EQ(exit_code(verdicts), 0);
  EXPECT_EQ(exit_code({Verdict::skipped, Verdict::skipped}), 77);
  const std::vector<std::pair<Verdict, int>> rising = {
      {Verdict::unrecoverable, 7}, {Verdict::not_fired, 6},   {Verdict::not_deterministic, 4},
      {Verdict::failed, 1},        {Verdict::timed_out, 124}, {Verdict::harness_error, 3}};
  for (const auto& [verdict, code] : rising) {
    verdicts.push_back(verdict);
    EXPECT_EQ(exit_code(verdicts), code);
  }
}

// The digest of a journal does not depend on the order in which workers delivered it.
RC_GTEST_PROP(JournalDigestProperty, IgnoresOrderOnly, ()) {
  auto journal = finished_run(4, 12).journal;
  const std::uint64_t digest = journal_digest(journal);
  std::swap(journal[*rc::gen::inRange<std::size_t>(0, 12)],
            journal[*rc::gen::inRange<std::size_t>(0, 12)]);
  RC_ASSERT(journal_digest(journal) == digest);
  journal[0].digest ^= 1;
  RC_ASSERT(journal_digest(journal) != digest);
}

}  // namespace
}  // namespace rehearse::harness
