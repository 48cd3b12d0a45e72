#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/codec.hpp"
#include "runtime/virtual/job.hpp"
#include "sim/run.hpp"
#include "tests/sim/forked.hpp"
#include "tests/world/conformance.hpp"

namespace rehearse {
namespace {

std::string encode(const RunOutcome& outcome) {
  Bytes bytes;
  Writer writer(bytes);
  writer.put(outcome.end);
  writer.put(outcome.world_end.time_since_epoch().count());
  writer.put(outcome.digest);
  writer.put_varint(outcome.workers.size());
  for (const WorkerOutcome& worker : outcome.workers) {
    writer.put_text(worker.name);
    writer.put(worker.rank);
    writer.put(worker.finished);
    writer.put(worker.killed);
    writer.put(worker.failure.has_value());
    if (worker.failure) writer.put(worker.failure->code);
    if (worker.failure) writer.put_text(worker.failure->message);
  }
  writer.put_varint(outcome.faults.size());
  for (const FaultOutcome& fault : outcome.faults) writer.put(fault.fired);
  writer.put_varint(outcome.journal.size());
  for (const JournalEntry& entry : outcome.journal) writer.put(entry.step);
  writer.put_varint(outcome.waiting.size());
  for (const WaitingTask& task : outcome.waiting) {
    writer.put_text(task.worker);
    writer.put_text(task.task);
    writer.put(task.duty);
    writer.put_text(task.what);
    writer.put_text(task.whom);
  }
  return std::string(text_of(bytes));
}

/// The part that `encode` writes: what the conformance suite looks at.
RunOutcome decode(std::string_view text) {
  const Bytes bytes = bytes_of(text);
  Reader reader(bytes);
  RunOutcome outcome;
  outcome.end = reader.get<RunOutcome::End>();
  outcome.world_end = Time(Duration(reader.get<std::int64_t>()));
  outcome.digest = reader.get<std::uint64_t>();
  outcome.workers.resize(reader.get_count());
  for (WorkerOutcome& worker : outcome.workers) {
    worker.name = reader.get_text();
    worker.rank = reader.get<int>();
    worker.finished = reader.get<bool>();
    worker.killed = reader.get<bool>();
    if (!reader.get<bool>()) continue;
    worker.failure.emplace();
    worker.failure->code = reader.get<Code>();
    worker.failure->message = reader.get_text();
  }
  outcome.faults.resize(reader.get_count());
  for (FaultOutcome& fault : outcome.faults) fault.fired = reader.get<std::uint64_t>();
  outcome.journal.resize(reader.get_count());
  for (JournalEntry& entry : outcome.journal) entry.step = reader.get<std::int64_t>();
  outcome.waiting.resize(reader.get_count());
  for (WaitingTask& task : outcome.waiting) {
    task.worker = reader.get_text();
    task.task = reader.get_text();
    task.duty = reader.get<Duty>();
    task.what = reader.get_text();
    task.whom = reader.get_text();
  }
  if (reader.failed() || reader.left() != 0)
    throw std::runtime_error("child: " + std::string(text));
  return outcome;
}

/// All workers on simulated hosts, in a forked child, which is then asked for what they left.
class SimStage final : public Stage {
 public:
  void add(std::string worker, std::function<void(World&)> body) override {
    workers_.push_back({std::move(worker), std::move(body)});
  }
  void fault(FaultSpec fault) override { options_.faults.push_back(std::move(fault)); }

  RunOutcome run() override {
    child_.emplace([this] { return simulate(); },
                   [this](std::string_view question) { return look_up(question); });
    return decode(child_->first());
  }
  std::string left(const std::string& worker, const std::string& object) override {
    return child_->ask(worker + '\n' + object);
  }

 private:
  std::string simulate() {
    const sim::ClusterSpec cluster{.hosts = static_cast<int>(workers_.size())};
    RunOutcome outcome;
    sim::run_under_simgrid(cluster, [&](virtual_world::Physics& physics) {
      job_ = std::make_unique<virtual_world::Job>(physics, options_);
      virtual_world::HostId host = 0;
      for (auto& [name, body] : workers_) job_->add(name, host++, body);
      outcome = job_->run();
    });
    return encode(outcome);
  }
  std::string look_up(std::string_view question) const {
    const auto split = question.find('\n');
    const auto bytes = job_->on_disk(question.substr(0, split), question.substr(split + 1));
    return bytes.ok() ? std::string(text_of(bytes.value())) : "";
  }

  std::vector<std::pair<std::string, std::function<void(World&)>>> workers_;
  virtual_world::JobOptions options_;
  std::unique_ptr<virtual_world::Job> job_;  // in the child
  std::optional<Forked> child_;
};

std::unique_ptr<Stage> make_sim_stage() { return std::make_unique<SimStage>(); }

INSTANTIATE_TEST_SUITE_P(sim, Conformance, testing::Values(MakeStage(&make_sim_stage)));

}  // namespace
}  // namespace rehearse
