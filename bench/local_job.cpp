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

real::Body body_of(const Program& program, const std::string& workload) {
  JobSpec job;
  job.workload = workload;
  return [&program, job](World& world) { worker_main(world, program, job); };
}

}  // namespace

std::string run_local(int workers, const real::Body& body, const LocalOptions& local) {
  const real::RunDirectory directory;
  real::LocalJobOptions options;
  options.workers = workers;
  options.workers_per_host = workers;
  options.transport = local.transport;
  options.run_directory = directory.path();
  options.body = body;
  const RunOutcome outcome = real::run_local_job(options);
  const std::string printed = text_of_file(outcome.workers[0].log);
  if (!local.losses) check(outcome, printed);
  return printed;
}

std::string run_local(int workers, const Program& program, const std::string& workload,
                      const LocalOptions& options) {
  return run_local(workers, body_of(program, workload), options);
}

void add_transport(CLI::App& app, real::Transport& transport) {
  app.add_option_function<std::string>(
         "--transport",
         [&transport](const std::string& name) { transport = *real::transport_named(name); },
         "between the processes")
      ->check(CLI::IsMember({"tcp", "shm"}));
}

}  // namespace rehearse::bench
