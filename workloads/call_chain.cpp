// A call that goes back and forth between two workers, A to B to A to B …, to a given depth, with a
// parameter used at each level on the way in and on the way out; several such chains at once.

#include <vector>

#include "workloads/layers.hpp"
#include "workloads/tensor.hpp"
#include "workloads/workloads.hpp"

namespace rehearse::workloads {
namespace {

constexpr double kRate = 0.1;

struct Link {
  Tensor parameter;

  Tensor& of(Worker& worker) {
    if (!parameter.defined()) {
      parameter =
          uniform(worker.world().self.seed, "link" + std::to_string(worker.rank()), {6, 6}, 0.5)
              .set_requires_grad(true);
    }
    return parameter;
  }
};

int other_end(const Worker& worker) { return worker.world_size() == 1 ? 0 : 1 - worker.rank(); }

Tensor descend(Worker& worker, const Function<Tensor(Tensor, std::int64_t)>& next, Tensor x,
               std::int64_t depth) {
  const Tensor& parameter = worker.local<Link>().of(worker);
  Tensor down = (x.mm(parameter) + x).tanh();
  if (depth > 1) down = worker.rpc().call(other_end(worker), next, down, depth - 1);
  return (down * parameter).sin() + x;
}

void step_link(Worker& worker, ContextId context, bool last_step) {
  worker.phase("optimizer");
  Tensor& parameter = worker.local<Link>().of(worker);
  const Tensor gradient = dist_autograd::get_gradients(worker, context, {parameter})[0];
  at::NoGradGuard no_grad;
  if (gradient.defined()) parameter.sub_(gradient, kRate);
  if (last_step) worker.report_final_parameters({parameter});
}

}  // namespace

void add_call_chain(Program& program) {
  const Function<Tensor(Tensor, std::int64_t)> chain("call_chain.descend");
  program.function(chain.name(), [chain](Worker& worker, Tensor x, std::int64_t depth) {
    return descend(worker, chain, x, depth);
  });
  const auto step_one = program.function("call_chain.step", step_link);

  program
      .workload("call_chain",
                [chain, step_one](Worker& worker) {
                  if (worker.rank() != 0) return;
                  const std::int64_t depth = worker.options().integer("depth");
                  const std::int64_t width = worker.options().integer("width");
                  const int other = other_end(worker);
                  for (std::int64_t step = 0; step < worker.steps(); ++step) {
                    worker.step(step);
                    dist_autograd::Context context(worker);
                    std::vector<Future<Tensor>> chains;
                    for (std::int64_t k = 0; k < width; ++k) {
                      const Tensor x =
                          uniform(worker.world().self.seed,
                                  "x" + std::to_string(step) + "." + std::to_string(k), {6, 6}, 1);
                      chains.push_back(worker.rpc().async(other, chain, x, depth));
                    }
                    Tensor loss = at::zeros({});
                    for (const auto& result : chains) loss = loss + result.wait().square().mean();
                    context.backward(loss);
                    for (int rank = 0; rank <= other; ++rank) {
                      worker.rpc().call(rank, step_one, context.id(), step + 1 == worker.steps());
                    }
                  }
                })
      .help("a call nested back and forth between two workers")
      .option("depth", 8, "levels of nesting")
      .option("width", 2, "chains at once");
}

}  // namespace rehearse::workloads
