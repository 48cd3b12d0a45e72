#pragma once

#include <string>

#include "harness/case.hpp"
#include "runtime/worker/program.hpp"
#include "runtime/worker/worker.hpp"

namespace rehearse::harness {

class WallTime;

/// What a program's workloads declare, for the scenario parser.
Catalogue catalogue_of(const Program& program);

/// Runs cases of a program: under SimGrid and in memory in a forked process each, in processes by
/// starting `executable` as `worker` for each.
class JobRunner final : public Runner {
 public:
  JobRunner(const Program& program, std::string executable)
      : program_(program), executable_(std::move(executable)) {}

  CaseResult run(const Case& run) override;
  CaseResult run_twice(const Case& run) override;
  std::optional<std::string> missing(WorldKind world) const override;

  /// One run in this process; virtual worlds only. With `uncut`, the oracle: in memory, without
  /// faults.
  RunOutcome run_here(const Case& run, bool uncut, bool keep_events) const;

 private:
  Result<RunOutcome> run_apart_or_in_processes(const Case& run, bool keep_events) const;
  Result<RunOutcome> oracle_of(const Case& run) const;
  Result<RunOutcome> replica_of(const Case& run) const;
  CaseResult judged(const Case& run, const WallTime& time, RunOutcome outcome) const;

  const Program& program_;
  std::string executable_;
};

/// The hidden commands by which a program starts itself: `worker --job JSON --spec-fd N`, and
/// `replica …`, a virtual run in a fresh process with another memory layout. Nothing if `argv` is
/// neither.
std::optional<int> run_hidden_command(int argc, char** argv, const Program& program);

}  // namespace rehearse::harness
