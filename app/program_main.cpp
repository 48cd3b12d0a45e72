#include <unistd.h>

#include <array>

#include <ATen/Parallel.h>
#include <torch/version.h>

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

}  // namespace

int Program::main(int argc, char** argv) {
  // One thread a worker: sums in torch's own kernels then have one order, and processes can fork.
  at::set_num_threads(1);
  if (const auto code = harness::run_hidden_command(argc, argv, *this)) return *code;
  harness::JobRunner runner(*this, own_executable(argv[0]));
  const harness::Catalogue catalogue = harness::catalogue_of(*this);
  cli::Setup setup{runner, catalogue, {}, argv[0], {}, {}};
  setup.identity.program = name_;
  setup.identity.version = REHEARSE_VERSION;
  setup.identity.commit = REHEARSE_COMMIT;
  setup.identity.torch = TORCH_VERSION;
  setup.identity.machine = cli::machine_text();
  return cli::main(argc, argv, setup);
}

}  // namespace rehearse
