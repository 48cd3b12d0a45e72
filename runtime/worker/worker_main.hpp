#pragma once

#include <memory>
#include <string>

#include "runtime/worker/program.hpp"
#include "runtime/worker/worker.hpp"

namespace rehearse {

/// What the workers of one uncut run share: they all run in one thread, as one program.
class UncutRun;
struct DeleteUncutRun {
  void operator()(UncutRun* run) const;
};
std::unique_ptr<UncutRun, DeleteUncutRun> make_uncut_run();

/// The main task of a worker, in every world: connects it, runs its workload, serves the others
/// until all are done, frees what is shared. With `uncut`, the same program without messages.
/// `cpu_class`: which of torch's kernels are used, "AVX2"; empty: torch is asked.
/// Throws what the workload throws.
void worker_main(World& world, const Program& program, const JobSpec& job,
                 UncutRun* uncut = nullptr, std::string cpu_class = {});

}  // namespace rehearse
