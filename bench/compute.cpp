// What a worker that computes loses while it receives: matrix products of a few milliseconds each,
// with and without a stream of 16 MiB tensors that come in between, in turn.
//
//   bench_compute [--rounds 7] [--transport tcp|shm] [--json FILE]

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <deque>
#include <nlohmann/json.hpp>

#include "bench/figures.hpp"
#include "bench/local_job.hpp"
#include "runtime/worker/worker.hpp"

namespace rehearse::bench {
namespace {

using at::Tensor;

constexpr int kOther = 1;
constexpr std::int64_t kMatrixSize = 448;
constexpr std::int64_t kProducts = 150;
constexpr std::int64_t kStreamElements = (16 << 20) / 4;
constexpr std::size_t kInFlight = 2;

class Bench {
 public:
  Bench(int rounds, real::Transport transport)
      : rounds_(rounds),
        transport_(transport),
        take_(program_.function("take", [](Tensor) {})),
        compute_(program_.function("compute", [](Worker& worker, std::int64_t products) {
          at::set_num_threads(1);
          const Tensor x = at::rand({kMatrixSize, kMatrixSize});
          const auto start = SteadyClock::now();
          for (std::int64_t i = 0; i < products; ++i) {
            at::mm(x, x);
            worker.world().tasks.yield();
          }
          return static_cast<double>(products) / microseconds_since(start) * 1e6;
        })) {
    program_.workload("compute", [this](Worker& worker) {
      if (worker.rank() == 0) fmt::print("{}", measure(worker.rpc()).dump());
    });
  }

  nlohmann::json run() {
    return nlohmann::json::parse(run_local(2, program_, "compute", {.transport = transport_}));
  }

 private:
  nlohmann::json measure(Rpc& rpc) {
    Figure products{"products_under_stream", "products_per_s", {}, "alone", {}};
    Figure stream{"stream_16MiB", "messages_per_s", {}, {}, {}};
    under_stream(rpc, stream.ours);
    stream.ours.clear();
    for (int round = 0; round < rounds_; ++round) {
      products.theirs.push_back(rpc.call(kOther, compute_, kProducts));
      products.ours.push_back(under_stream(rpc, stream.ours));
    }
    return nlohmann::json::array({json_of(products), json_of(stream)});
  }

  double under_stream(Rpc& rpc, Samples& rates) {
    const Tensor x = at::rand({kStreamElements});
    const auto start = SteadyClock::now();
    const auto rate = rpc.async(kOther, compute_, kProducts);
    std::deque<Future<void>> under_way;
    double sent = 0;
    for (; !rate.ready(); ++sent) {
      if (under_way.size() == kInFlight) {
        under_way.front().wait();
        under_way.pop_front();
      }
      under_way.push_back(rpc.async(kOther, take_, x));
    }
    rates.push_back(sent / microseconds_since(start) * 1e6);
    for (const auto& future : under_way) future.wait();
    return rate.wait();
  }

  int rounds_;
  real::Transport transport_;
  Program program_{"bench_compute"};
  Function<void(Tensor)> take_;
  Function<double(std::int64_t)> compute_;
};

}  // namespace
}  // namespace rehearse::bench

int main(int argc, char** argv) {
  CLI::App app{"Matrix products beside a stream of tensors that come in"};
  int rounds = 7;
  std::string json;
  rehearse::real::Transport transport{};
  app.add_option("--rounds", rounds);
  rehearse::bench::add_transport(app, transport);
  app.add_option("--json", json);
  CLI11_PARSE(app, argc, argv);
  return rehearse::bench::publish(rehearse::bench::Bench(rounds, transport).run(), json);
}
