#include "bench/local_job.hpp"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>

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

std::string run_pair(const real::Body& body, const PairOptions& pair) {
  std::string directory =
      (std::filesystem::temp_directory_path() / "rehearse-bench-XXXXXX").string();
  if (!::mkdtemp(directory.data())) throw Error(Code::cannot_start, "no temporary directory");
  real::LocalJobOptions options;
  options.workers = 2;
  options.workers_per_host = 2;
  options.transport = pair.transport;
  options.run_directory = directory;
  options.body = body;
  const RunOutcome outcome = real::run_local_job(options);
  const std::string printed = text_of_file(outcome.workers[0].log);
  std::filesystem::remove_all(directory);
  if (!pair.losses) check(outcome, printed);
  return printed;
}

std::string run_pair(const Program& program, const std::string& workload,
                     const PairOptions& options) {
  JobSpec job;
  job.workload = workload;
  return run_pair([&](World& world) { worker_main(world, program, job); }, options);
}

void add_transport(CLI::App& app, real::Transport& transport) {
  app.add_option_function<std::string>(
         "--transport",
         [&transport](const std::string& name) { transport = *real::transport_named(name); },
         "between the two processes")
      ->check(CLI::IsMember({"tcp", "shm"}));
}

}  // namespace rehearse::bench
