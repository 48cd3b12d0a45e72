#include "bench/local_job.hpp"

#include <fstream>
#include <iterator>

#include "runtime/real/run_directory.hpp"
#include "runtime/worker/worker_main.hpp"

namespace rehearse::bench {
namespace {

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void check(const RunOutcome& outcome, const std::string& printed) {
  for (const WorkerOutcome& worker : outcome.workers) {
    if (worker.failure) throw Error(*worker.failure);
    if (!worker.finished)
      throw Error(Code::cannot_start, worker.name + " did not finish: " + printed);
  }
}

}  // namespace

std::string run_pair(const real::Body& body, bool losses) {
  const real::RunDirectory directory;
  real::LocalJobOptions options;
  options.workers = 2;
  options.run_directory = directory.path();
  options.body = body;
  const RunOutcome outcome = real::run_local_job(options);
  const std::string printed = text_of_file(outcome.workers[0].log);
  if (!losses) check(outcome, printed);
  return printed;
}

std::string run_pair(const Program& program, const std::string& workload, bool losses) {
  JobSpec job;
  job.workload = workload;
  return run_pair([&](World& world) { worker_main(world, program, job); }, losses);
}

}  // namespace rehearse::bench
