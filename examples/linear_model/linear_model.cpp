// Linear regression over several workers: w0 holds the weights, w1 the bias, and all others are
// trainers, each with data of its own. Run it: linear_model run linear_model.toml

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cstdint>
#include <string>
#include <vector>

#include "rehearse/rehearse.hpp"

using rehearse::Tensor;
using rehearse::Worker;

constexpr std::int64_t kInputs = 10;
constexpr double kLearningRate = 0.2;
constexpr int kWeights = 0, kBias = 1, kFirstTrainer = 2;  // ranks

// The parameter of one worker. It lives in `Worker::local`, not in a global: in simulation all
// workers share one process.
struct Parameter {
  Tensor tensor;

  Tensor& of(Worker& worker) {
    if (!tensor.defined()) {
      const std::int64_t rows = worker.rank() == kWeights ? kInputs : 1;
      tensor = at::zeros({rows, 1}).set_requires_grad(true);
    }
    return tensor;
  }
};

// Uniform in [-1, 1), drawn from the scenario's seed: the same numbers in every world.
Tensor draw(rehearse::Random random, std::int64_t rows, std::int64_t columns) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows * columns; ++i)
    values.push_back(static_cast<float>(2 * random.unit() - 1));
  return at::tensor(values).view({rows, columns});
}

// On w0 and w1. What a function returns stays connected to the parameters that it used.
Tensor times_weights(Worker& worker, Tensor x) {
  return x.mm(worker.local<Parameter>().of(worker));
}
Tensor plus_bias(Worker& worker, Tensor x) { return x + worker.local<Parameter>().of(worker); }

// On w0 and w1, after backward: SGD with the gradients that the context has collected here.
void take_step(Worker& worker, rehearse::ContextId context, bool last) {
  worker.phase("optimizer");
  Tensor& parameter = worker.local<Parameter>().of(worker);
  const auto gradients = rehearse::dist_autograd::get_gradients(worker, context, {parameter});
  const at::NoGradGuard no_grad;
  parameter.sub_(gradients[0], kLearningRate);
  if (last) worker.report_final_parameters({parameter});
}

int main(int argc, char** argv) {
  rehearse::Program program("linear_model");
  const auto weights = program.function("times_weights", times_weights);
  const auto bias = program.function("plus_bias", plus_bias);
  const auto optimize = program.function("take_step", take_step);

  // On each trainer: the loss of its own batch, by calls to those that hold the parameters.
  const auto loss = program.function("loss", [=](Worker& worker, std::int64_t step) {
    const Tensor x = draw(worker.random("batch" + std::to_string(step)),
                          worker.options().integer("batch"), kInputs);
    const Tensor y = x.sum(1, true) + 0.5;  // what is to be learned
    const Tensor product = worker.rpc().call(kWeights, weights, x);
    const Tensor predicted = worker.rpc().call(kBias, bias, product);
    return (predicted - y).square().mean();
  });

  // Every worker runs this: the first trainer drives, the others return at once and serve calls.
  const auto train = [=](Worker& worker) {
    if (worker.rank() != kFirstTrainer) return;
    for (std::int64_t step = 0; step < worker.steps(); ++step) {
      worker.step(step);
      rehearse::dist_autograd::Context context(worker);
      std::vector<rehearse::Future<Tensor>> losses;
      for (int rank = kFirstTrainer; rank < worker.world_size(); ++rank) {
        losses.push_back(worker.rpc().async(rank, loss, step));
      }
      Tensor total = at::zeros({});
      for (const auto& one : losses) total = total + one.wait();
      context.backward(total / static_cast<double>(losses.size()));
      for (const int rank : {kWeights, kBias}) {
        worker.rpc().call(rank, optimize, context.id(), step + 1 == worker.steps());
      }
    }
  };
  program.workload("linear_model", train)
      .help("linear regression: weights on w0, bias on w1, data on all others")
      .option("batch", 32, "examples of a trainer's step")
      .workers([](const rehearse::Options&) { return kFirstTrainer + 1; });

  return program.main(argc, argv);
}
