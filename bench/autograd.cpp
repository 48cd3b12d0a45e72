// Forward, backward and reading the gradients across two processes of one host: a step of one call
// with a tiny operation, and ten calls nested back and forth. Prints medians of the whole and its
// parts.
//
//   bench_autograd [--rounds 7] [--steps 300] [--transport tcp|shm] [--json FILE]

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/rand.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/figures.hpp"
#include "bench/local_job.hpp"
#include "runtime/worker/dist_autograd.hpp"

namespace rehearse::bench {
namespace {

using at::Tensor;

constexpr std::int64_t kHops = 10;
constexpr double kFactor = 1.01;

struct Times {
  Samples total, forward, backward, gradients;
};

class Bench {
 public:
  Bench(int rounds, int steps, real::Transport transport)
      : rounds_(rounds), steps_(steps), transport_(transport), scale_("scale"), hop_("hop") {
    program_.function(scale_.name(), [](Tensor x) { return x * kFactor; });
    program_.function(hop_.name(), [this](Worker& worker, Tensor x, std::int64_t hops) {
      const Tensor y = x * kFactor;
      return hops == 1 ? y : worker.rpc().call(1 - worker.rank(), hop_, y, hops - 1);
    });
    program_.workload("autograd", [this](Worker& worker) {
      if (worker.rank() == 0) fmt::print("{}", measure(worker).dump());
    });
  }

  nlohmann::json run() {
    return nlohmann::json::parse(run_local(2, program_, "autograd", {.transport = transport_}));
  }

 private:
  nlohmann::json measure(Worker& worker) {
    at::set_num_threads(1);
    auto rows = nlohmann::json::array();
    const auto add = [&](const std::string& name, auto&& forward) {
      Times rounds;
      steps(worker, forward);
      for (int round = 0; round < rounds_; ++round) {
        const Times times = steps(worker, forward);
        rounds.total.push_back(median(times.total));
        rounds.forward.push_back(median(times.forward));
        rounds.backward.push_back(median(times.backward));
        rounds.gradients.push_back(median(times.gradients));
      }
      rows.push_back(json_of({name, "us", rounds.total, {}, {}}));
      rows.push_back(json_of({name + "_forward", "us", rounds.forward, {}, {}}));
      rows.push_back(json_of({name + "_backward", "us", rounds.backward, {}, {}}));
      rows.push_back(json_of({name + "_get_gradients", "us", rounds.gradients, {}, {}}));
    };
    add("step_2_workers", [&](const Tensor& x) { return worker.rpc().call(1, scale_, x).sum(); });
    add(fmt::format("chain_{}_hops", kHops),
        [&](const Tensor& x) { return worker.rpc().call(1, hop_, x, kHops).sum(); });
    return rows;
  }

  template <class Forward>
  Times steps(Worker& worker, const Forward& forward) {
    const Tensor leaf = at::rand({3, 3}).set_requires_grad(true);
    Times times;
    for (int i = 0; i < steps_; ++i) {
      const auto start = SteadyClock::now();
      dist_autograd::Context context(worker);
      const Tensor loss = forward(leaf);
      times.forward.push_back(microseconds_since(start));
      const auto backward_start = SteadyClock::now();
      context.backward(loss);
      times.backward.push_back(microseconds_since(backward_start));
      const auto read_start = SteadyClock::now();
      const auto gradients = context.gradients();
      times.gradients.push_back(microseconds_since(read_start));
      times.total.push_back(microseconds_since(start));
      if (gradients.size() != 1) throw Error(Code::pass_failed, "the leaf has no gradient");
    }
    return times;
  }

  int rounds_, steps_;
  real::Transport transport_;
  Program program_{"bench_autograd"};
  Function<Tensor(Tensor)> scale_;
  Function<Tensor(Tensor, std::int64_t)> hop_;
};

}  // namespace
}  // namespace rehearse::bench

int main(int argc, char** argv) {
  CLI::App app{"Distributed autograd between two processes"};
  int rounds = 7, steps = 300;
  rehearse::real::Transport transport{};
  std::string json;
  app.add_option("--rounds", rounds);
  app.add_option("--steps", steps, "steps in a round");
  rehearse::bench::add_transport(app, transport);
  app.add_option("--json", json);
  CLI11_PARSE(app, argc, argv);
  return rehearse::bench::publish(rehearse::bench::Bench(rounds, steps, transport).run(), json);
}
