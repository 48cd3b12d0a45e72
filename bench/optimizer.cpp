// A step of a distributed optimizer over four owners, the trainer one of them: from the
// call to the return, without forward and backward.
//
//   bench_optimizer [--rounds 7] [--transport tcp|shm] [--json FILE]

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/rand.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/figures.hpp"
#include "bench/local_job.hpp"
#include "runtime/training/distributed_optimizer.hpp"
#include "runtime/worker/dist_autograd.hpp"

namespace rehearse::bench {
namespace {

using at::Tensor;

constexpr int kOwners = 4;
constexpr std::int64_t kBatch = 16;
constexpr int kSteps = 60;
constexpr std::int64_t kWidths[] = {64, 512};

struct Layer {
  Tensor weight, bias;
};

class Bench {
 public:
  Bench(int rounds, real::Transport transport) : rounds_(rounds), transport_(transport) {
    program_.function(make_layer_.name(), [](Worker& worker, std::int64_t width) {
      Layer& layer = worker.local<Layer>();
      layer.weight = at::rand({width, width}).div_(width).set_requires_grad(true);
      layer.bias = at::rand({width}).set_requires_grad(true);
      return std::vector{worker.remote_ref(layer.weight), worker.remote_ref(layer.bias)};
    });
    program_.function(forward_.name(), [](Worker& worker, Tensor x) {
      const Layer& layer = worker.local<Layer>();
      return at::addmm(layer.bias, x, layer.weight).relu();
    });
    program_.workload("optimizer", [this](Worker& worker) {
      at::set_num_threads(1);  // owners too: threads of torch that spin take the others' cores
      if (worker.rank() == 0) fmt::print("{}", measure(worker).dump());
    });
  }

  nlohmann::json run() {
    return nlohmann::json::parse(
        run_local(kOwners, program_, "optimizer", {.transport = transport_}));
  }

 private:
  nlohmann::json measure(Worker& worker) {
    auto rows = nlohmann::json::array();
    for (const std::int64_t width : kWidths) {
      rows.push_back(row(worker, "sgd", Sgd{.learning_rate = 1e-4}, width));
      rows.push_back(row(worker, "adam", Adam{.learning_rate = 1e-4}, width));
    }
    return rows;
  }

  nlohmann::json row(Worker& worker, const std::string& name, const Algorithm& algorithm,
                     std::int64_t width) {
    std::vector<RemoteRef<Tensor>> parameters;
    for (int owner = 0; owner < kOwners; ++owner) {
      for (auto& parameter : worker.rpc().call(owner, make_layer_, width))
        parameters.push_back(std::move(parameter));
    }
    OptimizerOptions options;
    options.algorithm = algorithm;
    DistributedOptimizer optimizer(worker, options, parameters);
    steps(worker, optimizer, width);
    Samples rounds;
    for (int round = 0; round < rounds_; ++round)
      rounds.push_back(median(steps(worker, optimizer, width)));
    return json_of(
        {fmt::format("step_{}_{}_owners_{}", name, kOwners, width), "us", rounds, {}, {}});
  }

  Samples steps(Worker& worker, DistributedOptimizer& optimizer, std::int64_t width) {
    Samples samples;
    for (int i = 0; i < kSteps; ++i) {
      dist_autograd::Context context(worker);
      Tensor x = at::rand({kBatch, width});
      for (int owner = 0; owner < kOwners; ++owner) x = worker.rpc().call(owner, forward_, x);
      context.backward(x.square().mean());
      const auto start = SteadyClock::now();
      optimizer.step(context.id());
      samples.push_back(microseconds_since(start));
    }
    return samples;
  }

  int rounds_;
  real::Transport transport_;
  Program program_{"bench_optimizer"};
  Function<std::vector<RemoteRef<Tensor>>(std::int64_t)> make_layer_{"make_layer"};
  Function<Tensor(Tensor)> forward_{"forward"};
};

}  // namespace
}  // namespace rehearse::bench

int main(int argc, char** argv) {
  CLI::App app{"Distributed optimizer over four processes"};
  int rounds = 7;
  rehearse::real::Transport transport{};
  std::string json;
  app.add_option("--rounds", rounds);
  rehearse::bench::add_transport(app, transport);
  app.add_option("--json", json);
  CLI11_PARSE(app, argc, argv);
  return rehearse::bench::publish(rehearse::bench::Bench(rounds, transport).run(), json);
}
