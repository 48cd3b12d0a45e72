// A random program over the workers, another one each step, drawn from the seed.

#include <vector>

#include "workloads/layers.hpp"
#include "workloads/random_program.hpp"
#include "workloads/tensor.hpp"
#include "workloads/workloads.hpp"

namespace rehearse::workloads {
namespace {

constexpr double kRate = 0.01;
using RunRoutine = Function<std::vector<Tensor>(std::string, std::vector<Tensor>)>;

at::ScalarType dtype_of(const Worker& worker) {
  return worker.options().text("dtype") == "float64" ? at::kDouble : at::kFloat;
}

struct Leaves {
  std::vector<Tensor> tensors;

  const std::vector<Tensor>& of(Worker& worker) {
    for (std::uint32_t i = 0; i < kLeaves && tensors.size() < kLeaves; ++i) {
      tensors.push_back(make_leaf(worker.world().self.seed,
                                  static_cast<std::uint32_t>(worker.rank()), i, dtype_of(worker)));
    }
    return tensors;
  }
};

// Runs a routine with real calls.
class WorkerMachine final : public Machine {
 public:
  WorkerMachine(Worker& worker, const RunRoutine& routine, std::int64_t workers)
      : worker_(worker), routine_(routine), workers_(static_cast<std::uint32_t>(workers)) {}

  Tensor leaf(std::uint32_t index) override {
    return worker_.local<Leaves>().of(worker_)[index % kLeaves];
  }
  std::size_t call(std::uint32_t worker, const Routine& body, const Tensors& arguments) override {
    calls_.push_back(worker_.rpc().async(static_cast<int>(worker % workers_), routine_,
                                         encode(body), arguments));
    return calls_.size() - 1;
  }
  Tensors wait(std::size_t call) override { return calls_.at(call).wait(); }

 private:
  Worker& worker_;
  const RunRoutine& routine_;
  std::uint32_t workers_;
  std::vector<Future<std::vector<Tensor>>> calls_;
};

std::int64_t workers_used(const Worker& worker) {
  const std::int64_t asked = worker.options().integer("workers_used");
  return asked == 0 ? worker.world_size() : asked;
}

void step_leaves(Worker& worker, ContextId context, bool last_step) {
  worker.phase("optimizer");
  const auto& leaves = worker.local<Leaves>().of(worker);
  const auto gradients = dist_autograd::get_gradients(worker, context, leaves);
  at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (gradients[i].defined()) leaves[i].sub_(gradients[i].clamp(-1, 1), kRate);
  }
  if (last_step) worker.report_final_parameters(leaves);
}

}  // namespace

void add_random_graph(Program& program) {
  const RunRoutine routine("random_graph.run");
  program.function(routine.name(),
                   [routine](Worker& worker, std::string text, std::vector<Tensor> arguments) {
                     WorkerMachine machine(worker, routine, workers_used(worker));
                     return run(machine, decode_routine(text), arguments);
                   });
  const auto step_one = program.function("random_graph.step", step_leaves);

  program
      .workload("random_graph",
                [routine, step_one](Worker& worker) {
                  if (worker.rank() != 0) return;
                  const auto nodes = static_cast<std::uint32_t>(worker.options().integer("nodes"));
                  const std::int64_t workers = workers_used(worker);
                  for (std::int64_t step = 0; step < worker.steps(); ++step) {
                    worker.step(step);
                    Random random =
                        Random(worker.world().self.seed).split("program" + std::to_string(step));
                    const Routine root =
                        draw_routine(random, nodes, static_cast<std::uint32_t>(workers));
                    dist_autograd::Context context(worker);
                    WorkerMachine machine(worker, routine, workers);
                    const Losses losses = run_root(machine, root);
                    context.backward(losses.first, {.retain_graph = true});
                    context.backward(losses.second);
                    for (int rank = 0; rank < workers; ++rank) {
                      worker.rpc().call(rank, step_one, context.id(), step + 1 == worker.steps());
                    }
                  }
                })
      .help("a random program of tensors and calls over the workers, two backward passes a step")
      .option("nodes", 40, "instructions of a step's program", 1, 100'000)
      .option("workers_used", 0, "workers that take part; 0: all", 0)
      .option({"dtype", std::string("float32"), "of all tensors", {}, {}, {"float32", "float64"}})
      .workers([](const Options& options) {
        return std::max<std::int64_t>(1, options.integer("workers_used"));
      });
}

void add_all(Program& program) {
  add_parameter_server(program);
  add_dist_optimizer(program);
  add_model_parallel(program);
  add_call_chain(program);
  add_fan_out(program);
  add_random_graph(program);
}

}  // namespace rehearse::workloads
