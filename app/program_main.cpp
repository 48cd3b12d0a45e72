#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/version.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "app/cli.hpp"
#include "app/machine.hpp"
#include "harness/runner/job_runner.hpp"
#include "runtime/worker/program.hpp"

namespace rehearse {
namespace {

std::string own_executable(const char* fallback) {
  std::array<char, 4096> path{};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  return size > 0 ? std::string(path.data(), static_cast<std::size_t>(size)) : fallback;
}

std::vector<cli::Finding> findings() {
  return {{"SimGrid", REHEARSE_SIMGRID, "no world `sim`: networks cannot be simulated"},
          {"CUDA in libtorch", at::hasCUDA() ? "built with it" : "",
           "runs use the CPU only; the small libtorch of the set-up has none"}};
}

}  // namespace

int Program::main(int argc, char** argv) {
  // One thread a worker: sums in torch's own kernels then have one order, and processes can fork.
  at::set_num_threads(1);
  if (const auto code = harness::run_hidden_command(argc, argv, *this)) return *code;
  harness::JobRunner runner(*this, own_executable(argv[0]));
  const harness::Catalogue catalogue = harness::catalogue_of(*this);
  // A wrapper that starts this program tells what the user typed.
  const char* typed = std::getenv("REHEARSE_COMMAND");
  cli::Setup setup{runner, catalogue, {}, typed && *typed ? typed : argv[0], findings(), {}};
  setup.identity.program = name_;
  setup.identity.version = REHEARSE_VERSION;
  setup.identity.commit = REHEARSE_COMMIT;
  setup.identity.torch = TORCH_VERSION;
  setup.identity.machine = cli::machine_text();
  return cli::main(argc, argv, setup);
}

}  // namespace rehearse
