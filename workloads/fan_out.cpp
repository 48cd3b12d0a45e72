// One tensor goes to many workers through relays, and all results come together: fan-out, fan-in,
// and several paths into one worker. One result is not used by the loss.

#include <fmt/format.h>

#include <vector>

#include "workloads/layers.hpp"
#include "workloads/tensor.hpp"
#include "workloads/workloads.hpp"

namespace rehearse::workloads {
namespace {

constexpr double kRate = 0.1;

struct Local {
  Tensor parameter;

  Tensor& of(Worker& worker) {
    if (!parameter.defined()) {
      parameter =
          uniform(worker.world().self.seed, "fan" + std::to_string(worker.rank()), {4, 4}, 0.5)
              .set_requires_grad(true);
    }
    return parameter;
  }
};

Tensor leaf(Worker& worker, Tensor x, std::int64_t copy) {
  const Tensor& parameter = worker.local<Local>().of(worker);
  return (x.mm(parameter) * (0.5 + 0.25 * static_cast<double>(copy))).tanh() + parameter;
}

void step_local(Worker& worker, ContextId context, bool last_step) {
  worker.phase("optimizer");
  Tensor& parameter = worker.local<Local>().of(worker);
  const Tensor gradient = dist_autograd::get_gradients(worker, context, {parameter})[0];
  at::NoGradGuard no_grad;
  if (gradient.defined()) parameter.sub_(gradient, kRate);
  if (last_step) worker.report_final_parameters({parameter});
}

}  // namespace

void add_fan_out(Program& program) {
  const auto at_leaf = program.function("fan_out.leaf", leaf);
  // A relay passes its tensor to two workers at once, and uses what comes back twice.
  const auto at_relay =
      program.function("fan_out.relay", [at_leaf](Worker& worker, Tensor x, std::int64_t copy) {
        const int next = (worker.rank() + 1) % worker.world_size();
        const Tensor& parameter = worker.local<Local>().of(worker);
        const Tensor mine = (x * parameter).sin();
        const auto one = worker.rpc().async(next, at_leaf, mine, copy);
        const auto two = worker.rpc().async(next, at_leaf, x, copy + 1);
        return one.wait() * two.wait() + one.wait();
      });
  const auto step_one = program.function("fan_out.step", step_local);

  program
      .workload("fan_out",
                [at_leaf, at_relay, step_one](Worker& worker) {
                  if (worker.rank() != 0) return;
                  const std::int64_t copies = worker.options().integer("copies");
                  const std::int64_t relays = worker.options().integer("relays");
                  const Tensor& parameter = worker.local<Local>().of(worker);
                  for (std::int64_t step = 0; step < worker.steps(); ++step) {
                    worker.step(step);
                    dist_autograd::Context context(worker);
                    const Tensor x =
                        uniform(worker.world().self.seed, "x" + std::to_string(step), {4, 4}, 1);
                    const Tensor start = (x * parameter).tanh();
                    std::vector<Future<Tensor>> results;
                    for (std::int64_t k = 0; k < copies; ++k) {
                      const int rank = static_cast<int>(k % worker.world_size());
                      results.push_back(k < relays ? worker.rpc().async(rank, at_relay, start, k)
                                                   : worker.rpc().async(rank, at_leaf, start, k));
                    }
                    Tensor sum = start;
                    // Waited for in the other order, and the first is left out.
                    for (std::size_t k = results.size(); k-- > 1;) sum = sum + results[k].wait();
                    context.backward(sum.square().mean());
                    for (int rank = 0; rank < worker.world_size(); ++rank) {
                      worker.rpc().call(rank, step_one, context.id(), step + 1 == worker.steps());
                    }
                  }
                })
      .help("one tensor to many workers and back, directly and through relays")
      .option("copies", 6, "calls of a step")
      .option("relays", 3, "of them, how many go through a relay", 0)
      .refuse([](const Options& options) {
        const std::int64_t copies = options.integer("copies"), relays = options.integer("relays");
        return relays <= copies ? ""
                                : fmt::format(
                                      "relays = {} is more than copies = {}, expected at "
                                      "most all of them",
                                      relays, copies);
      });
}

}  // namespace rehearse::workloads
