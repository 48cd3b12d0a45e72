#include "tests/harness/samples.hpp"

namespace rehearse::harness {

RunOutcome finished_run(int workers, int entries) {
  RunOutcome outcome;
  outcome.world_end = Time(std::chrono::milliseconds(1500));
  for (int rank = 0; rank < workers; ++rank) {
    WorkerOutcome worker;
    worker.name = worker_name(rank);
    worker.rank = rank;
    worker.finished = true;
    worker.digest = 100 + static_cast<std::uint64_t>(rank);
    worker.ended = outcome.world_end;
    outcome.workers.push_back(worker);
  }
  for (int i = 0; i < entries; ++i) {
    const auto leaf = static_cast<std::uint32_t>(i);
    const auto owner = static_cast<std::uint16_t>(i % 4);
    outcome.journal.push_back({i / 4, 0, 0, 0, owner, leaf, 7u * leaf, {}});
  }
  for (int rank = 0; rank < workers; ++rank) {
    const auto owner = static_cast<std::uint16_t>(rank);
    outcome.final_parameters.push_back({rehearse::kFinalParameters, 0, 0, 0, owner, 0, 9, {}});
  }
  outcome.counters = {{"messages", 40}, {"events", 900}, {"contexts_live", 0}, {"tasks_live", 0}};
  outcome.digests[kFinalParameters] = 0xabc;
  outcome.digest = 0x1234;
  return outcome;
}

Case sample_case() {
  Case run;
  run.scenario.name = "sample";
  run.scenario.cluster.hosts = 4;
  run.scenario.job.workload = "parameter_server";
  run.file = "sample.toml";
  FaultSpec fault;
  fault.id = "worker-dies";
  fault.who.kind = FaultTarget::Kind::ranks;
  fault.who.ranks = {2};
  run.scenario.faults = {fault};
  return run;
}

Evidence sample_evidence() {
  Evidence evidence;
  evidence.outcome = finished_run(4, 12);
  evidence.outcome.faults = {{1, Time(std::chrono::milliseconds(500))}};
  evidence.oracle = finished_run(4, 12);
  return evidence;
}

}  // namespace rehearse::harness
