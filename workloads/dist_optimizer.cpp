// A model whose layers live on owners; trainers compute losses on batches of their own and step the
// layers by a distributed optimizer. Within a step all trainers compute their gradients first; then
// they step the layers in the order of their ranks, so that results do not depend on timing.

#include <map>
#include <vector>

#include "workloads/layers.hpp"
#include "workloads/tensor.hpp"
#include "workloads/workloads.hpp"

namespace rehearse::workloads {
namespace {

struct Shape {
  std::int64_t owners, trainers, hidden, layers, batch;

  explicit Shape(const Options& options)
      : owners(options.integer("owners")),
        trainers(options.integer("trainers")),
        hidden(options.integer("hidden")),
        layers(options.integer("layers")),
        batch(options.integer("batch")) {}
  int owner_of(std::int64_t layer) const { return static_cast<int>(layer % owners); }
};

// One owner's share of the model.
struct Share {
  std::map<std::int64_t, Layer> layers;
};

Layer& layer_of(Worker& worker, std::int64_t index) {
  auto& layers = worker.local<Share>().layers;
  const auto found = layers.find(index);
  if (found != layers.end()) return found->second;
  const Shape shape(worker.options());
  const std::uint64_t seed = worker.world().self.seed;
  return layers.emplace(index, make_model_layer(seed, index, shape.layers, shape.hidden))
      .first->second;
}

std::vector<RemoteRef<Tensor>> parameters_of(Worker& worker, std::int64_t layer) {
  std::vector<RemoteRef<Tensor>> references;
  for (const auto& parameter : layer_of(worker, layer).parameters())
    references.push_back(worker.remote_ref(parameter));
  return references;
}

void report(Worker& worker) {
  std::vector<Tensor> parameters;
  for (const auto& [index, layer] : worker.local<Share>().layers) {
    for (const auto& parameter : layer.parameters()) parameters.push_back(parameter);
  }
  worker.report_final_parameters(parameters);
}

// Kept by rank 0: who has its gradients, whose turn it is to step.
struct Turns {
  std::int64_t ready = 0, stepped = 0;
  std::vector<Promise<void>> waiting;

  template <class Condition>
  void wait_until(Worker& worker, const Condition& holds) {
    while (!holds()) {
      waiting.push_back(worker.promise<void>("the other trainers"));
      const auto turn = waiting.back().future();
      turn.wait();
    }
  }
  void changed() {
    for (const auto& promise : std::exchange(waiting, {})) promise.set();
  }
};

// A trainer has its gradients: returns when those before it have stepped.
void wait_for_turn(Worker& worker, std::int64_t step, std::int64_t trainer) {
  Turns& turns = worker.local<Turns>();
  const std::int64_t trainers = Shape(worker.options()).trainers;
  ++turns.ready;
  turns.changed();
  turns.wait_until(worker, [&] {
    return turns.ready >= (step + 1) * trainers && turns.stepped == step * trainers + trainer;
  });
}

// A trainer has stepped: returns when all have.
void end_turn(Worker& worker, std::int64_t step) {
  Turns& turns = worker.local<Turns>();
  ++turns.stepped;
  turns.changed();
  turns.wait_until(worker,
                   [&] { return turns.stepped >= (step + 1) * Shape(worker.options()).trainers; });
}

OptimizerOptions optimizer_options(const Options& options) {
  const std::map<std::string, Algorithm> algorithms = {
      {"sgd", Sgd{.learning_rate = 0.05, .momentum = 0.9}},
      {"adam", Adam{.learning_rate = 0.01}},
      {"adamw", AdamW{.learning_rate = 0.01}},
      {"adagrad", Adagrad{.learning_rate = 0.05}},
      {"rmsprop", RmsProp{.learning_rate = 0.01}}};
  OptimizerOptions chosen;
  chosen.algorithm = algorithms.at(options.text("optimizer"));
  chosen.schedule.decay = ExponentialDecay{0.98};
  if (const double norm = options.number("clip_norm"); norm > 0) chosen.clip_gradient_norm = norm;
  return chosen;
}

struct Calls {
  Function<Tensor(std::int64_t, Tensor)> forward;
  Function<std::vector<RemoteRef<Tensor>>(std::int64_t)> parameters;
  Function<void(std::int64_t, std::int64_t)> wait_for_turn;
  Function<void(std::int64_t)> end_turn;
  Function<void()> report;
};

void train(Worker& worker, std::int64_t trainer, const Calls& calls) {
  const Shape shape(worker.options());
  std::vector<RemoteRef<Tensor>> parameters;
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    for (auto& reference : worker.rpc().call(shape.owner_of(layer), calls.parameters, layer))
      parameters.push_back(std::move(reference));
  }
  DistributedOptimizer optimizer(worker, optimizer_options(worker.options()), parameters);
  for (std::int64_t step = 0; step < worker.steps(); ++step) {
    worker.step(step);
    dist_autograd::Context context(worker);
    const Batch batch = make_batch(worker.world().self.seed, step, trainer, shape.batch);
    Tensor x = batch.inputs;
    for (std::int64_t layer = 0; layer < shape.layers; ++layer)
      x = worker.rpc().call(shape.owner_of(layer), calls.forward, layer, x);
    context.backward(mean_squared_error(x, batch.targets));
    worker.rpc().call(0, calls.wait_for_turn, step, trainer);
    optimizer.step(context.id());
    worker.rpc().call(0, calls.end_turn, step);
  }
  if (trainer != 0) return;
  for (int owner = 0; owner < shape.owners; ++owner) worker.rpc().call(owner, calls.report);
}

}  // namespace

void add_dist_optimizer(Program& program) {
  const Calls calls{
      program.function(
          "dist_optimizer.forward",
          [](Worker& worker, std::int64_t layer, Tensor x) { return layer_of(worker, layer)(x); }),
      program.function("dist_optimizer.parameters", parameters_of),
      program.function("dist_optimizer.wait_for_turn", wait_for_turn),
      program.function("dist_optimizer.end_turn", end_turn),
      program.function("dist_optimizer.report", report),
  };
  OptionSpec optimizer{"optimizer", std::string("adam"), "which of torch's optimizers", {}, {}, {}};
  optimizer.choices = {"sgd", "adam", "adamw", "adagrad", "rmsprop"};
  program
      .workload("dist_optimizer",
                [calls](Worker& worker) {
                  const Shape shape(worker.options());
                  const std::int64_t trainer = worker.rank() - shape.owners;
                  if (trainer >= 0 && trainer < shape.trainers) train(worker, trainer, calls);
                })
      .help("layers on owners, batches on trainers, which step all layers at once or none")
      .option(std::move(optimizer))
      .option("owners", 2, "workers that hold the layers")
      .option("trainers", 2, "workers that compute losses and step")
      .option("hidden", 32, "units of a layer")
      .option("layers", 3, "layers of the model")
      .option("batch", 16, "examples of a trainer's step")
      .option({"clip_norm", 0.0, "greatest norm of a step's gradients; 0: any", 0, 1e9, {}})
      .workers([](const Options& options) {
        return options.integer("owners") + options.integer("trainers");
      });
}

}  // namespace rehearse::workloads
