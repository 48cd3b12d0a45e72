#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rehearse/rehearse.hpp"
#include "tests/programs/job_fixture.hpp"
#include "workloads/tensor.hpp"

/// A job that is small enough for its gradients to be known by heart.
namespace rehearse::programs {

inline Tensor filled(double value, bool requires_grad = false) {
  return at::empty({2}, at::kDouble).fill_(value).set_requires_grad(requires_grad);
}

/// Each worker has one leaf: two elements of value rank + 2.
struct Leaf {
  Tensor value;
  std::int64_t marks = 0;  ///< for tests that count or switch something on a worker

  const Tensor& of(Worker& worker) {
    if (!value.defined()) value = filled(worker.rank() + 2, true);
    return value;
  }
};
inline const Tensor& leaf_of(Worker& worker) { return worker.local<Leaf>().of(worker); }

/// Its first element, or nothing.
using Value = std::optional<double>;
inline Value gradient_of(Worker& worker, ContextId context) {
  const Tensor gradient = dist_autograd::get_gradients(worker, context, {leaf_of(worker)})[0];
  if (!gradient.defined()) return std::nullopt;
  return gradient.select(0, 0).item<double>();
}

struct SmallJob {
  using Body = std::function<void(Worker&)>;

  Program program{"small"};
  /// x times the callee's leaf.
  Function<Tensor(Tensor)> times =
      program.function("times", [](Worker& worker, Tensor x) { return x * leaf_of(worker); });
  /// Passes x on to the next rank, `depth` times, then multiplies it by the leaf there.
  Function<Tensor(Tensor, int)> pass_on{"pass_on"};
  Function<Value(ContextId)> gradient = program.function("gradient", gradient_of);
  Body on_others = [](Worker&) {};

  SmallJob() {
    program.function(pass_on.name(), [this](Worker& worker, Tensor x, int depth) {
      if (depth == 0) return x * leaf_of(worker);
      return worker.rpc().call((worker.rank() + 1) % worker.world_size(), pass_on, x, depth - 1);
    });
  }

  /// Of all workers, as rank 0 sees them: "2 - 3". Calls each.
  std::string gradients(Worker& worker, ContextId context) const {
    std::string text;
    for (int rank = 0; rank < worker.world_size(); ++rank) {
      const Value value = worker.rpc().call(rank, gradient, context);
      text += (rank ? " " : "") + (value ? fmt::format("{}", *value) : std::string("-"));
    }
    return text;
  }

  RunOutcome run(In world, const JobSetup& setup, Body on_rank_0) {
    program.workload("main", [&, body = std::move(on_rank_0)](Worker& worker) {
      worker.rank() == 0 ? body(worker) : on_others(worker);
    });
    return programs::run(world, program, setup);
  }
};

using Said = std::vector<std::string>;

}  // namespace rehearse::programs
