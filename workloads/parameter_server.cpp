// A model whose layers live on parameter servers; trainers compute losses on batches of their own.
// Every step is synchronous: servers wait for all trainers, add their gradients in the order of the
// trainers, and take one SGD step.

#include <map>
#include <optional>
#include <vector>

#include "workloads/layers.hpp"
#include "workloads/tensor.hpp"
#include "workloads/workloads.hpp"

namespace rehearse::workloads {
namespace {

constexpr double kRate = 0.05;

struct Shape {
  std::int64_t servers, trainers, hidden, layers, batch;

  explicit Shape(const Options& options)
      : servers(options.integer("servers")),
        trainers(options.integer("trainers")),
        hidden(options.integer("hidden")),
        layers(options.integer("layers")),
        batch(options.integer("batch")) {}
  int server_of(std::int64_t layer) const { return static_cast<int>(layer % servers); }
};

// One server's share of the model.
struct Server {
  std::map<std::int64_t, Layer> layers;
  std::map<std::int64_t, ContextId> arrived;  // trainer -> its context of this step
  std::vector<Promise<void>> waiting;         // trainers that wait for the others
  std::optional<Failure> broken;              // a trainer is lost: no step can be complete

  Layer& layer(Worker& worker, std::int64_t index) {
    const auto found = layers.find(index);
    if (found != layers.end()) return found->second;
    const Shape shape(worker.options());
    const std::uint64_t seed = worker.world().self.seed;
    return layers.emplace(index, make_model_layer(seed, index, shape.layers, shape.hidden))
        .first->second;
  }
};

Tensor forward(Worker& worker, std::int64_t layer, Tensor x) {
  return worker.local<Server>().layer(worker, layer)(x);
}

// The sum of the trainers' gradients, in their order: the same bits whoever arrives first.
void take_step(Worker& worker, Server& server) {
  worker.phase("optimizer");
  for (auto& [index, layer] : server.layers) {
    std::vector<Tensor> sums(2);
    for (const auto& [trainer, context] : server.arrived) {
      const auto gradients = dist_autograd::get_gradients(worker, context, layer.parameters());
      for (std::size_t i = 0; i < sums.size(); ++i) {
        if (!gradients[i].defined()) continue;
        sums[i] = sums[i].defined() ? sums[i] + gradients[i] : gradients[i];
      }
    }
    layer.step(sums, kRate);
  }
}

void report(Worker& worker, const Server& server) {
  std::vector<Tensor> parameters;
  for (const auto& [index, layer] : server.layers) {
    for (const auto& parameter : layer.parameters()) parameters.push_back(parameter);
  }
  worker.report_final_parameters(parameters);
}

// The servers' barrier, for a worker that has only begun.
void watch_trainers(Worker& worker, const Shape& shape) {
  for (std::int64_t trainer = 0; trainer < shape.trainers; ++trainer) {
    worker.on_lost(static_cast<int>(shape.servers + trainer), [&worker](const Failure& loss) {
      Server& server = worker.local<Server>();
      server.broken = loss;
      for (const auto& promise : std::exchange(server.waiting, {})) promise.set(loss);
    });
  }
}

void arrive(Worker& worker, std::int64_t step, std::int64_t trainer, ContextId context) {
  Server& server = worker.local<Server>();
  server.arrived[trainer] = context;
  if (server.arrived.size() == static_cast<std::size_t>(Shape(worker.options()).trainers)) {
    take_step(worker, server);
    if (step + 1 == worker.steps()) report(worker, server);
    server.arrived.clear();
    for (const auto& promise : std::exchange(server.waiting, {})) promise.set();
    return;
  }
  if (server.broken) throw Error(*server.broken);
  server.waiting.push_back(worker.promise<void>("the other trainers"));
  server.waiting.back().future().wait();
}

}  // namespace

void add_parameter_server(Program& program) {
  const auto layer_forward = program.function("parameter_server.forward", forward);
  const auto step_done = program.function("parameter_server.arrive", arrive);

  program
      .workload("parameter_server",
                [layer_forward, step_done](Worker& worker) {
                  const Shape shape(worker.options());
                  if (worker.rank() < shape.servers) watch_trainers(worker, shape);
                  const std::int64_t trainer = worker.rank() - shape.servers;
                  if (trainer >= 0 && trainer < shape.trainers) {
                    for (std::int64_t step = 0; step < worker.steps(); ++step) {
                      worker.step(step);
                      dist_autograd::Context context(worker);
                      const Batch batch =
                          make_batch(worker.world().self.seed, step, trainer, shape.batch);
                      Tensor x = batch.inputs;
                      for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
                        x = worker.rpc().call(shape.server_of(layer), layer_forward, layer, x);
                      }
                      context.backward(mean_squared_error(x, batch.targets));
                      std::vector<Future<void>> done;
                      for (int server = 0; server < shape.servers; ++server) {
                        done.push_back(
                            worker.rpc().async(server, step_done, step, trainer, context.id()));
                      }
                      for (const auto& future : done) future.wait();
                    }
                  }
                })
      .help("layers on parameter servers, batches on trainers; one synchronous SGD step at a time")
      .option("servers", 2, "workers that hold the layers")
      .option("trainers", 2, "workers that compute losses")
      .option("hidden", 32, "units of a layer")
      .option("layers", 3, "layers of the model")
      .option("batch", 16, "examples of a trainer's step")
      .workers([](const Options& options) {
        return options.integer("servers") + options.integer("trainers");
      });
}

}  // namespace rehearse::workloads
