#pragma once

#include <string>
#include <vector>

#include "tests/programs/small_job.hpp"

/// Jobs whose parameters are the leaves of small_job.hpp: two elements of value rank + 2. Values,
/// gradients and rates are such that sums are exact in any order.
namespace rehearse::training {

using programs::In;
using programs::JobSetup;
using programs::Said;
using programs::say;

struct OptimizerJob : programs::SmallJob {
  Function<RemoteRef<Tensor>()> parameter = program.function(
      "parameter", [](Worker& worker) { return worker.remote_ref(programs::leaf_of(worker)); });
  Function<double()> value = program.function("value", [](Worker& worker) {
    return programs::leaf_of(worker).select(0, 0).item<double>();
  });

  /// x plus the callee's leaf, of which the graph saves nothing.
  Function<Tensor(Tensor)> plus = program.function(
      "plus", [](Worker& worker, Tensor x) { return x + programs::leaf_of(worker); });

  /// References to the leaves of these workers.
  std::vector<RemoteRef<Tensor>> parameters(Worker& worker, const std::vector<int>& owners) const {
    std::vector<RemoteRef<Tensor>> references;
    for (const int owner : owners) references.push_back(worker.rpc().call(owner, parameter));
    return references;
  }

  /// "2 3": of these workers.
  std::string values(Worker& worker, const std::vector<int>& owners) const {
    std::string text;
    for (const int owner : owners)
      text += (text.empty() ? "" : " ") + fmt::format("{}", worker.rpc().call(owner, value));
    return text;
  }

  /// A step for which every one of `owners` has a gradient of 1.
  void step(Worker& worker, DistributedOptimizer& optimizer, const std::vector<int>& owners) const {
    dist_autograd::Context context(worker);
    Tensor loss = programs::filled(0);
    for (const int owner : owners)
      loss = loss + worker.rpc().call(owner, times, programs::filled(1));
    context.backward(loss.sum());
    optimizer.step(context.id());
  }
};

inline OptimizerOptions sgd(double learning_rate) {
  OptimizerOptions options;
  options.algorithm = Sgd{.learning_rate = learning_rate};
  return options;
}

}  // namespace rehearse::training
