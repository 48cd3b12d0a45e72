// A model cut into stages, one a worker: activations travel from stage to stage by nested calls,
// and gradients back. Rank 0 drives; each stage takes its own SGD step.

#include <optional>
#include <vector>

#include "workloads/layers.hpp"
#include "workloads/tensor.hpp"
#include "workloads/workloads.hpp"

namespace rehearse::workloads {
namespace {

constexpr double kRate = 0.05;

struct Stage {
  std::optional<Layer> layer;

  Layer& of(Worker& worker) {
    const Options& options = worker.options();
    if (!layer) {
      layer = make_model_layer(worker.world().self.seed, worker.rank(), options.integer("stages"),
                               options.integer("hidden"));
    }
    return *layer;
  }
};

// Each stage calls the next one: the result comes back through all of them.
Tensor run_from(Worker& worker, const Function<Tensor(Tensor)>& next, Tensor x) {
  const Tensor y = worker.local<Stage>().of(worker)(x);
  const int after = worker.rank() + 1;
  return after == worker.options().integer("stages") ? y : worker.rpc().call(after, next, y);
}

void step_stage(Worker& worker, ContextId context, bool last_step) {
  worker.phase("optimizer");
  Layer& layer = worker.local<Stage>().of(worker);
  layer.step(dist_autograd::get_gradients(worker, context, layer.parameters()), kRate);
  if (last_step) worker.report_final_parameters(layer.parameters());
}

}  // namespace

void add_model_parallel(Program& program) {
  const Function<Tensor(Tensor)> forward("model_parallel.forward");
  program.function(forward.name(),
                   [forward](Worker& worker, Tensor x) { return run_from(worker, forward, x); });
  const auto step_one = program.function("model_parallel.step", step_stage);

  program
      .workload("model_parallel",
                [forward, step_one](Worker& worker) {
                  if (worker.rank() != 0) return;
                  const std::int64_t size = worker.options().integer("batch");
                  const auto stages = static_cast<int>(worker.options().integer("stages"));
                  for (std::int64_t step = 0; step < worker.steps(); ++step) {
                    worker.step(step);
                    dist_autograd::Context context(worker);
                    const Batch batch = make_batch(worker.world().self.seed, step, 0, size);
                    const Tensor y = worker.rpc().call(0, forward, batch.inputs);
                    context.backward(mean_squared_error(y, batch.targets));
                    std::vector<Future<void>> steps;
                    for (int stage = 0; stage < stages; ++stage) {
                      steps.push_back(worker.rpc().async(stage, step_one, context.id(),
                                                         step + 1 == worker.steps()));
                    }
                    for (const auto& future : steps) future.wait();
                  }
                })
      .help("one stage of a model per worker; activations go by nested calls")
      .option("stages", 3, "workers, each with one layer")
      .option("hidden", 32, "units of a layer")
      .option("batch", 16, "examples of a step")
      .workers([](const Options& options) { return options.integer("stages"); });
}

}  // namespace rehearse::workloads
