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

std::string run(int workers, const real::Body& body, bool losses) {
  const real::RunDirectory directory;
  real::LocalJobOptions options;
  options.workers = workers;
  options.run_directory = directory.path();
  options.body = body;
  const RunOutcome outcome = real::run_local_job(options);
  const std::string printed = text_of_file(outcome.workers[0].log);
  if (!losses) check(outcome, printed);
  return printed;
}

real::Body body_of(const Program& program, const std::string& workload) {
  JobSpec job;
  job.workload = workload;
  return [&program, job](World& world) { worker_main(world, program, job); };
}

}  // namespace

std::string run_pair(const real::Body& body, bool losses) { return run(2, body, losses); }

std::string run_pair(const Program& program, const std::string& workload, bool losses) {
  return run(2, body_of(program, workload), losses);
}

std::string run_workers(int workers, const Program& program, const std::string& workload) {
  return run(workers, body_of(program, workload), false);
}

}  // namespace rehearse::bench
