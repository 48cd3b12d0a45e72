// The `rehearse` program. This one has no worlds: it reads, explains and lists; a run is skipped
// with the reason.
#include "app/cli.hpp"
#include "app/machine.hpp"
#include "harness/builtin_workloads.hpp"

namespace {

using rehearse::harness::Case;
using rehearse::harness::CaseResult;
using rehearse::harness::Verdict;
using rehearse::harness::WorldKind;

class NoWorlds : public rehearse::harness::Runner {
 public:
  CaseResult run(const Case& run) override {
    return rehearse::harness::without_run(run, Verdict::skipped, kWhy);
  }
  CaseResult run_twice(const Case& run_case) override { return run(run_case); }
  std::optional<std::string> missing(WorldKind) const override { return kWhy; }

 private:
  static constexpr const char* kWhy = "this program was built without worlds";
};

}  // namespace

int main(int argc, char** argv) {
  NoWorlds runner;
  const auto workloads = rehearse::harness::builtin_workloads();
  rehearse::cli::Setup setup{runner, workloads, {}, argv[0], {}, {}};
  setup.identity.version = "0.1.0";
  setup.identity.machine = rehearse::cli::machine_text();
  return rehearse::cli::main(argc, argv, setup);
}
