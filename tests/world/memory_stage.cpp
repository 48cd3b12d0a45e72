#include "runtime/virtual/constant_physics.hpp"
#include "runtime/virtual/job.hpp"
#include "tests/world/conformance.hpp"

namespace rehearse {
namespace {

/// All workers in this process, in virtual time, each on its own host.
class MemoryStage final : public Stage {
 public:
  void add(std::string worker, std::function<void(World&)> body) override {
    workers_.push_back({std::move(worker), std::move(body)});
  }
  void fault(FaultSpec fault) override { options_.faults.push_back(std::move(fault)); }

  RunOutcome run() override {
    job_ = std::make_unique<virtual_world::Job>(physics_, options_);
    virtual_world::HostId host = 0;
    for (auto& [name, body] : workers_) job_->add(name, host++, body);
    return job_->run();
  }
  std::string left(const std::string& worker, const std::string& object) override {
    const auto bytes = job_->on_disk(worker, object);
    return bytes.ok() ? std::string(text_of(bytes.value())) : "";
  }

 private:
  std::vector<std::pair<std::string, std::function<void(World&)>>> workers_;
  virtual_world::ConstantPhysics physics_;
  virtual_world::JobOptions options_;
  std::unique_ptr<virtual_world::Job> job_;
};

std::unique_ptr<Stage> make_memory_stage() { return std::make_unique<MemoryStage>(); }

INSTANTIATE_TEST_SUITE_P(memory, Conformance, testing::Values(MakeStage(&make_memory_stage)));

}  // namespace
}  // namespace rehearse
