#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "runtime/real/file_disk.hpp"
#include "runtime/real/launcher.hpp"
#include "runtime/real/run_directory.hpp"
#include "tests/world/conformance.hpp"

namespace rehearse {
namespace {

using namespace std::chrono_literals;

// Each worker is a forked process of this machine; they talk over `transport`.
class ProcessStage final : public Stage {
 public:
  explicit ProcessStage(real::Transport transport) {
    options_.transport = transport;
    options_.run_directory = directory_.path();
    options_.seed = 1;
    options_.time_limit = 60s;
    options_.limits.stop_grace = 1s;
  }

  void add(std::string worker, std::function<void(World&)> body) override {
    options_.names.push_back(std::move(worker));
    bodies_.push_back(std::move(body));
  }
  void fault(FaultSpec fault) override { options_.faults.push_back(std::move(fault)); }

  RunOutcome run() override {
    options_.workers = static_cast<int>(bodies_.size());
    options_.body = [this](World& world) {
      bodies_[static_cast<std::size_t>(world.self.rank)](world);
    };
    return real::run_local_job(options_);
  }

  std::string left(const std::string& worker, const std::string& object) override {
    const std::string directory = real::disk_path(options_.run_directory, worker);
    std::ifstream file(directory + "/" + real::file_name(object), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  real::RunDirectory directory_;
  real::LocalJobOptions options_;
  std::vector<std::function<void(World&)>> bodies_;
};

std::unique_ptr<Stage> make_tcp_stage() {
  return std::make_unique<ProcessStage>(real::Transport::tcp);
}
std::unique_ptr<Stage> make_shm_stage() {
  return std::make_unique<ProcessStage>(real::Transport::shm);
}

INSTANTIATE_TEST_SUITE_P(processes_tcp, Conformance, testing::Values(MakeStage(&make_tcp_stage)));
INSTANTIATE_TEST_SUITE_P(processes_shm, Conformance, testing::Values(MakeStage(&make_shm_stage)));

}  // namespace
}  // namespace rehearse
