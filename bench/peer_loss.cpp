// How long after a worker's process is killed a caller that waits for it hears of it: from the
// return of kill(2) to Error{peer_lost}, in processes, a job for each sample.
//
//   bench_peer_loss [--samples 15] [--resident-mib 0,32,60] [--transport tcp|shm] [--json FILE]

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/figures.hpp"
#include "bench/local_job.hpp"
#include "runtime/worker/worker.hpp"

namespace rehearse::bench {
namespace {

constexpr int kOther = 1;

class Bench {
 public:
  Bench(std::size_t resident_mib, real::Transport transport)
      : transport_(transport),
        pid_(program_.function("pid",
                               [resident_mib](Worker& worker) {
                                 Bytes& ballast = worker.local<Bytes>();
                                 ballast.assign(resident_mib << 20, std::byte{1});
                                 return std::int64_t{::getpid()};
                               })),
        wait_(program_.function("wait",
                                [](Worker& worker) { worker.world().clock.sleep_until(kNever); })) {
    program_.workload("loss", [this](Worker& worker) {
      if (worker.rank() == 0) fmt::print("{}", microseconds_to_loss(worker.rpc()));
      if (worker.rank() == kOther) worker.world().clock.sleep_until(kNever);
    });
  }

  double sample() {
    return std::stod(run_local(2, program_, "loss", {.transport = transport_, .losses = true}));
  }

 private:
  double microseconds_to_loss(Rpc& rpc) {
    const auto pid = static_cast<pid_t>(rpc.call(kOther, pid_));
    const auto never = rpc.async(kOther, wait_);
    ::kill(pid, SIGKILL);
    const auto start = SteadyClock::now();
    try {
      never.wait();
    } catch (const Error& error) {
      if (error.code() == Code::peer_lost) return microseconds_since(start);
      throw;
    }
    throw Error(Code::cannot_start, "a worker that was killed has answered");
  }

  real::Transport transport_;
  Program program_{"bench_peer_loss"};
  Function<std::int64_t()> pid_;
  Function<void()> wait_;
};

nlohmann::json measure(int samples, const std::vector<std::size_t>& sizes_mib,
                       real::Transport transport) {
  auto rows = nlohmann::json::array();
  for (const std::size_t size_mib : sizes_mib) {
    Bench bench(size_mib, transport);
    Figure figure{fmt::format("peer_lost_{}MiB", size_mib), "us", {}, {}, {}};
    for (int i = 0; i < samples; ++i) figure.ours.push_back(bench.sample());
    rows.push_back(json_of(figure));
  }
  return rows;
}

}  // namespace
}  // namespace rehearse::bench

int main(int argc, char** argv) {
  CLI::App app{"From kill(2) to Error{peer_lost}"};
  int samples = 15;
  std::vector<std::size_t> sizes_mib{0, 32, 60};
  std::string json;
  app.add_option("--samples", samples);
  app.add_option("--resident-mib", sizes_mib, "what the killed process holds beside libtorch")
      ->delimiter(',');
  rehearse::real::Transport transport{};
  rehearse::bench::add_transport(app, transport);
  app.add_option("--json", json);
  CLI11_PARSE(app, argc, argv);
  return rehearse::bench::publish(rehearse::bench::measure(samples, sizes_mib, transport), json);
}
