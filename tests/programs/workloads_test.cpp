// The built-in workloads against plain single-process code of the same model. `cross` stands where
// a message goes: an identity that makes sums associate in the same way, so bits can be compared.

#include "workloads/workloads.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "runtime/autograd/gradients.hpp"
#include "tests/programs/small_job.hpp"
#include "tests/programs/torch_nodes.hpp"
#include "workloads/layers.hpp"

namespace rehearse::programs {
namespace {

using workloads::Layer;
using workloads::uniform;
using Tensors = std::vector<Tensor>;

constexpr std::uint64_t kSeed = 7;
constexpr std::int64_t kSteps = 3;

Tensor cross(const Tensor& x) { return x.view_as(x); }

void descend(Tensor& parameter, const Tensor& gradient, double rate) {
  at::NoGradGuard no_grad;
  if (gradient.defined()) parameter.sub_(gradient, rate);
}

// Digests of final parameters, worker by worker.
using Digests = std::map<int, std::vector<std::uint64_t>>;

void add(Digests& digests, int rank, const Tensors& parameters) {
  for (const auto& parameter : parameters) digests[rank].push_back(autograd::digest(parameter));
}

Digests final_parameters(const RunOutcome& outcome) {
  Digests digests;
  for (const JournalEntry& line : outcome.journal) {
    if (line.step == kFinalParameters) digests[line.owner].push_back(line.digest);
  }
  return digests;
}

// In every world.
void expect_everywhere(const std::string& workload, int workers, OptionValues options,
                       const Digests& wanted) {
  Program program("workloads");
  workloads::add_all(program);
  JobSetup setup(workers, kSeed);
  setup.job.workload = workload;
  setup.job.steps = kSteps;
  setup.job.options = Options(std::move(options));
  for (const In world : worlds()) {
    const RunOutcome outcome = run(world, program, setup);
    EXPECT_EQ(complaints(outcome), "") << workload << " in " << world;
    EXPECT_EQ(final_parameters(outcome), wanted) << workload << " in " << world;
  }
}

TEST(Workloads, ParameterServerLearnsWhatOneProcessLearns) {
  constexpr std::int64_t kServers = 2, kTrainers = 3, kLayers = 3, kHidden = 8, kBatch = 5;
  std::vector<Layer> layers;
  Tensors parameters;
  for (std::int64_t i = 0; i < kLayers; ++i) {
    layers.push_back(workloads::make_model_layer(kSeed, i, kLayers, kHidden));
    for (const auto& parameter : layers.back().parameters()) parameters.push_back(parameter);
  }
  for (std::int64_t step = 0; step < kSteps; ++step) {
    Tensors sums(parameters.size());
    for (std::int64_t trainer = 0; trainer < kTrainers; ++trainer) {
      const auto batch = workloads::make_batch(kSeed, step, trainer, kBatch);
      Tensor x = batch.inputs;
      for (const auto& layer : layers) x = cross(layer(cross(x)));
      const auto gradients =
          plain_gradients(workloads::mean_squared_error(x, batch.targets), parameters);
      for (std::size_t i = 0; i < sums.size(); ++i)
        sums[i] = sums[i].defined() ? sums[i] + gradients[i] : gradients[i];
    }
    for (std::size_t i = 0; i < layers.size(); ++i)
      layers[i].step({sums[2 * i], sums[2 * i + 1]}, 0.05);
  }
  Digests wanted;
  for (std::size_t i = 0; i < layers.size(); ++i)
    add(wanted, static_cast<int>(i % kServers), layers[i].parameters());
  expect_everywhere("parameter_server", 5,
                    {{"servers", kServers},
                     {"trainers", kTrainers},
                     {"layers", kLayers},
                     {"hidden", kHidden},
                     {"batch", kBatch}},
                    wanted);
}

// One trainer's SGD with momentum, as torch computes it.
struct Momentum {
  Tensors buffers;

  void step(Tensors& parameters, const Tensors& gradients, double rate) {
    at::NoGradGuard no_grad;
    const bool first = buffers.empty();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (first) {
        buffers.push_back(gradients[i].clone());
      } else {
        buffers[i].mul_(0.9).add_(gradients[i]);
      }
      parameters[i].add_(buffers[i], -rate);
    }
  }
};

// Trainers compute their gradients from the same parameters, then step one after the other.
TEST(Workloads, DistOptimizerLearnsWhatOneProcessLearns) {
  constexpr std::int64_t kOwners = 2, kTrainers = 2, kLayers = 3, kHidden = 8, kBatch = 5;
  std::vector<Layer> layers;
  Tensors parameters;
  for (std::int64_t i = 0; i < kLayers; ++i) {
    layers.push_back(workloads::make_model_layer(kSeed, i, kLayers, kHidden));
    for (const auto& parameter : layers.back().parameters()) parameters.push_back(parameter);
  }
  std::vector<Momentum> trainers(kTrainers);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    std::vector<Tensors> gradients;
    for (std::int64_t trainer = 0; trainer < kTrainers; ++trainer) {
      const auto batch = workloads::make_batch(kSeed, step, trainer, kBatch);
      Tensor x = batch.inputs;
      for (const auto& layer : layers) x = cross(layer(cross(x)));
      gradients.push_back(
          plain_gradients(workloads::mean_squared_error(x, batch.targets), parameters));
    }
    const double rate = 0.05 * std::pow(0.98, static_cast<double>(step));
    for (std::size_t i = 0; i < trainers.size(); ++i)
      trainers[i].step(parameters, gradients[i], rate);
  }
  Digests wanted;
  for (std::size_t i = 0; i < layers.size(); ++i)
    add(wanted, static_cast<int>(i % kOwners), layers[i].parameters());
  expect_everywhere("dist_optimizer", 4,
                    {{"optimizer", std::string("sgd")},
                     {"owners", kOwners},
                     {"trainers", kTrainers},
                     {"layers", kLayers},
                     {"hidden", kHidden},
                     {"batch", kBatch}},
                    wanted);
}

TEST(Workloads, ModelParallelLearnsWhatOneProcessLearns) {
  constexpr std::int64_t kStages = 4, kHidden = 8, kBatch = 5;
  std::vector<Layer> layers;
  Tensors parameters;
  for (std::int64_t i = 0; i < kStages; ++i) {
    layers.push_back(workloads::make_model_layer(kSeed, i, kStages, kHidden));
    for (const auto& parameter : layers.back().parameters()) parameters.push_back(parameter);
  }
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const auto batch = workloads::make_batch(kSeed, step, 0, kBatch);
    Tensor x = batch.inputs;
    for (const auto& layer : layers) x = layer(cross(x));
    for (std::int64_t i = 0; i < kStages; ++i) x = cross(x);
    const auto gradients =
        plain_gradients(workloads::mean_squared_error(x, batch.targets), parameters);
    for (std::size_t i = 0; i < layers.size(); ++i)
      layers[i].step({gradients[2 * i], gradients[2 * i + 1]}, 0.05);
  }
  Digests wanted;
  for (std::size_t i = 0; i < layers.size(); ++i)
    add(wanted, static_cast<int>(i), layers[i].parameters());
  expect_everywhere("model_parallel", kStages,
                    {{"stages", kStages}, {"hidden", kHidden}, {"batch", kBatch}}, wanted);
}

Tensor go_down(const Tensors& parameters, std::size_t at, const Tensor& x, std::int64_t depth) {
  Tensor down = (x.mm(parameters[at]) + x).tanh();
  if (depth > 1) down = cross(go_down(parameters, 1 - at, cross(down), depth - 1));
  return (down * parameters[at]).sin() + x;
}

TEST(Workloads, CallChainLearnsWhatOneProcessLearns) {
  constexpr std::int64_t kDepth = 6, kWidth = 3;
  Tensors parameters;
  for (const char* link : {"link0", "link1"}) {
    parameters.push_back(uniform(kSeed, link, {6, 6}, 0.5).set_requires_grad(true));
  }
  for (std::int64_t step = 0; step < kSteps; ++step) {
    Tensors results;
    for (std::int64_t k = 0; k < kWidth; ++k) {
      const Tensor x = uniform(kSeed, fmt::format("x{}.{}", step, k), {6, 6}, 1);
      results.push_back(cross(go_down(parameters, 1, x, kDepth)));
    }
    Tensor loss = at::zeros({});
    for (const auto& result : results) loss = loss + result.square().mean();
    const auto gradients = plain_gradients(loss, parameters);
    for (std::size_t i = 0; i < 2; ++i) descend(parameters[i], gradients[i], 0.1);
  }
  Digests wanted;
  for (int rank : {0, 1}) add(wanted, rank, {parameters[static_cast<std::size_t>(rank)]});
  expect_everywhere("call_chain", 2, {{"depth", kDepth}, {"width", kWidth}}, wanted);
}

// --- fan_out

constexpr std::int64_t kFans = 3;

Tensor fan_leaf(const Tensor& parameter, const Tensor& x, std::int64_t copy) {
  return (x.mm(parameter) * (0.5 + 0.25 * static_cast<double>(copy))).tanh() + parameter;
}

Tensor fan_relay(const Tensors& parameters, std::size_t at, const Tensor& x, std::int64_t copy) {
  const Tensor& next = parameters[(at + 1) % kFans];
  const Tensor mine = (x * parameters[at]).sin();
  const Tensor one = cross(fan_leaf(next, cross(mine), copy)),
               two = cross(fan_leaf(next, cross(x), copy + 1));
  return one * two + one;
}

TEST(Workloads, FanOutLearnsWhatOneProcessLearns) {
  constexpr std::int64_t kCopies = 6, kRelays = 3;
  Tensors parameters;
  for (std::int64_t rank = 0; rank < kFans; ++rank) {
    parameters.push_back(
        uniform(kSeed, fmt::format("fan{}", rank), {4, 4}, 0.5).set_requires_grad(true));
  }
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const Tensor x = uniform(kSeed, fmt::format("x{}", step), {4, 4}, 1);
    const Tensor start = (x * parameters[0]).tanh();
    Tensors results;
    for (std::int64_t k = 0; k < kCopies; ++k) {
      const auto at = static_cast<std::size_t>(k % kFans);
      results.push_back(cross(k < kRelays ? fan_relay(parameters, at, cross(start), k)
                                          : fan_leaf(parameters[at], cross(start), k)));
    }
    Tensor sum = start;
    for (std::size_t k = results.size(); k-- > 1;) sum = sum + results[k];
    const auto gradients = plain_gradients(sum.square().mean(), parameters);
    for (std::size_t i = 0; i < parameters.size(); ++i) descend(parameters[i], gradients[i], 0.1);
  }
  Digests wanted;
  for (int rank = 0; rank < kFans; ++rank)
    add(wanted, rank, {parameters[static_cast<std::size_t>(rank)]});
  expect_everywhere("fan_out", kFans, {{"copies", kCopies}, {"relays", kRelays}}, wanted);
}

}  // namespace
}  // namespace rehearse::programs
