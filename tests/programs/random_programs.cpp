#include "tests/programs/random_programs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <ostream>

#include "rehearse/rehearse.hpp"
#include "tests/programs/torch_nodes.hpp"
#include "workloads/tensor.hpp"

namespace rehearse::programs {
namespace {

using workloads::Instruction;
using workloads::kLeaves;
using workloads::Op;
using workloads::Routine;

using RunBody = Function<std::vector<Tensor>(std::string, std::uint32_t, std::vector<Tensor>)>;
using ReadLeaves = Function<std::vector<Tensor>(std::uint32_t, ContextId)>;

// The leaves of the logical workers that live here.
struct Leaves {
  std::map<std::uint32_t, std::vector<Tensor>> of;

  const std::vector<Tensor>& at(std::uint32_t logical, const Plan& plan) {
    auto& leaves = of[logical];
    for (auto i = static_cast<std::uint32_t>(leaves.size()); i < kLeaves; ++i) {
      leaves.push_back(workloads::make_leaf(plan.seed, logical, i, plan.dtype()));
    }
    return leaves;
  }
};

// One logical worker's code, on the worker where it is placed.
class PlacedMachine final : public workloads::Machine {
 public:
  PlacedMachine(Worker& worker, const Plan& plan, const RunBody& run_body, std::uint32_t logical)
      : worker_(worker), plan_(plan), run_body_(run_body), logical_(logical) {}

  Tensor leaf(std::uint32_t index) override {
    return worker_.local<Leaves>().at(logical_, plan_)[index % kLeaves];
  }
  std::size_t call(std::uint32_t worker, const Routine& body,
                   const workloads::Tensors& arguments) override {
    const std::uint32_t to = worker % plan_.logical_workers();
    calls_.push_back(worker_.rpc().async(plan_.placement[to], run_body_, workloads::encode(body),
                                         to, arguments));
    return calls_.size() - 1;
  }
  workloads::Tensors wait(std::size_t call) override { return calls_.at(call).wait(); }

 private:
  Worker& worker_;
  const Plan& plan_;
  const RunBody& run_body_;
  std::uint32_t logical_;
  std::vector<Future<std::vector<Tensor>>> calls_;
};

std::vector<Routine> without_one(const std::vector<Routine>& all, std::size_t left_out) {
  std::vector<Routine> rest = all;
  rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(left_out));
  return rest;
}

std::vector<Routine> smaller(const Routine& routine) {
  std::vector<Routine> result;
  const auto& all = routine.instructions;
  for (std::size_t length = all.size(); length > 0; length /= 2) {
    for (std::size_t begin = 0; begin < all.size(); begin += length) {
      Routine less = routine;
      const auto first = less.instructions.begin() + static_cast<std::ptrdiff_t>(begin);
      less.instructions.erase(
          first, first + static_cast<std::ptrdiff_t>(std::min(length, all.size() - begin)));
      result.push_back(std::move(less));
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].body) continue;
    for (Routine& body : smaller(*all[i].body)) {
      Routine less = routine;
      less.instructions[i].body = std::make_shared<const Routine>(std::move(body));
      result.push_back(std::move(less));
    }
  }
  if (routine.results > 1) {
    result.push_back(routine);
    result.back().results = 1;
  }
  return result;
}

std::vector<Plan> smaller(const Plan& plan) {
  std::vector<Plan> result;
  const auto add = [&](std::vector<Routine> programs) {
    result.push_back(plan);
    result.back().programs = std::move(programs);
  };
  if (plan.programs.size() > 1) {
    const auto middle =
        plan.programs.begin() + static_cast<std::ptrdiff_t>(plan.programs.size() / 2);
    add({plan.programs.begin(), middle});
    add({middle, plan.programs.end()});
    for (std::size_t i = 0; i < plan.programs.size(); ++i) add(without_one(plan.programs, i));
    return result;
  }
  for (Routine& less : smaller(plan.programs[0])) add({std::move(less)});
  if (plan.placement.size() > 1) {
    result.push_back(plan);
    result.back().placement.pop_back();
  }
  return result;
}

// A small program may have a loss that no leaf leads to; then the first leaf is added.
workloads::Losses losses_of(workloads::Machine& machine, const Routine& routine) {
  workloads::Losses losses = run_root(machine, routine);
  for (Tensor* loss : {&losses.first, &losses.second}) {
    if (!loss->requires_grad()) *loss = *loss + machine.leaf(0).sum();
  }
  return losses;
}

std::vector<Tensor> read_leaves(Worker& worker, const Plan& plan, std::uint32_t logical,
                                ContextId context) {
  return dist_autograd::get_gradients(worker, context, worker.local<Leaves>().at(logical, plan));
}

}  // namespace

int Plan::ranks() const { return 1 + *std::ranges::max_element(placement); }

void showValue(const Plan& plan, std::ostream& out) {
  out << fmt::format("seed {}, {}, logical workers on ranks {}\n", plan.seed,
                     plan.float64 ? "float64" : "float32", plan.placement);
  for (const auto& program : plan.programs) out << workloads::to_text(program) << "--\n";
}

Plan draw_plan(Random& random, const Shape& shape) {
  Plan plan;
  plan.seed = 1 + random.below(1'000'000);
  plan.float64 = random.below(2) == 0;
  const auto workers =
      1 + static_cast<int>(random.below(static_cast<std::uint64_t>(shape.workers_max)));
  plan.placement.clear();
  for (int rank = 0; rank < workers; ++rank) plan.placement.push_back(rank);
  for (int i = 0; i < shape.programs; ++i) {
    const auto nodes = shape.nodes_min + static_cast<std::uint32_t>(
                                             random.below(shape.nodes_max - shape.nodes_min + 1));
    plan.programs.push_back(workloads::draw_routine(random, nodes, plan.logical_workers()));
  }
  return plan;
}

rc::Gen<Plan> plans(const Shape& shape) {
  return rc::Gen<Plan>([shape](const rc::Random& drawn, int) {
    rc::Random source = drawn;
    Random random(source.next());
    return rc::shrinkable::shrinkRecur(draw_plan(random, shape), [](const Plan& plan) {
      return rc::seq::fromContainer(smaller(plan));
    });
  });
}

struct PlanJob::State {
  State(Plan of, bool with_second_order)
      : plan(std::move(of)), second_order(with_second_order), program("random programs") {}
  void run(Worker& worker);
  Tensor penalty(Worker& worker, ContextId context);
  std::vector<Tensor> gradients_of(Worker& worker, ContextId context);

  Plan plan;
  bool second_order;
  Program program;
  RunBody run_body{"run body"};
  ReadLeaves read{"read leaves"};
  Gradients gradients;
};

std::vector<Tensor> PlanJob::State::gradients_of(Worker& worker, ContextId context) {
  std::vector<Tensor> all;
  for (std::uint32_t logical = 0; logical < plan.logical_workers(); ++logical) {
    for (auto& one : worker.rpc().call(plan.placement[logical], read, logical, context))
      all.push_back(one);
  }
  return all;
}

// Of all gradients so far, each of which has a history on the worker of its leaf.
Tensor PlanJob::State::penalty(Worker& worker, ContextId context) {
  Tensor sum = at::zeros({}, plan.dtype());
  for (const Tensor& gradient : gradients_of(worker, context)) {
    if (gradient.defined()) sum = sum + (gradient * gradient).sum();
  }
  return sum;
}

void PlanJob::State::run(Worker& worker) {
  std::vector<Tensor> reported;
  for (std::size_t step = 0; step < plan.programs.size(); ++step) {
    worker.step(static_cast<std::int64_t>(step));
    dist_autograd::Context context(worker);
    PlacedMachine machine(worker, plan, run_body, 0);
    const workloads::Losses losses = losses_of(machine, plan.programs[step]);
    context.backward(losses.first, {.retain_graph = true, .create_graph = second_order});
    context.backward(second_order ? losses.second + penalty(worker, context.id()) : losses.second);
    gradients.push_back(gradients_of(worker, context.id()));
    reported.insert(reported.end(), gradients.back().begin(), gradients.back().end());
  }
  worker.report_final_parameters(reported);
}

PlanJob::PlanJob(Plan plan, bool second_order)
    : state_(std::make_shared<State>(std::move(plan), second_order)) {
  State* state = state_.get();  // which owns the program
  state->program.function(
      state->run_body.name(), [state](Worker& worker, std::string text, std::uint32_t logical,
                                      std::vector<Tensor> arguments) {
        PlacedMachine machine(worker, state->plan, state->run_body, logical);
        return workloads::run(machine, workloads::decode_routine(text), arguments);
      });
  state->program.function(state->read.name(),
                          [state](Worker& worker, std::uint32_t logical, ContextId context) {
                            return read_leaves(worker, state->plan, logical, context);
                          });
  state->program.workload("programs", [state](Worker& worker) {
    if (worker.rank() == 0) state->run(worker);
  });
}

PlanJob::~PlanJob() = default;

const Program& PlanJob::program() const { return state_->program; }

JobSetup PlanJob::setup() const { return JobSetup(state_->plan.ranks(), state_->plan.seed); }

Gradients PlanJob::take_gradients() { return std::exchange(state_->gradients, {}); }

Gradients plain_gradients(const Plan& plan) {
  Gradients all;
  for (const auto& program : plan.programs) {
    workloads::PlainMachine machine(plan.seed, plan.logical_workers(), plan.dtype());
    const workloads::Losses losses = losses_of(machine, program);
    auto sums = plain_gradients(losses.first, machine.leaves());
    const auto second = plain_gradients(losses.second, machine.leaves());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (!second[i].defined()) continue;
      sums[i] = sums[i].defined() ? sums[i] + second[i] : second[i];
    }
    all.push_back(std::move(sums));
  }
  return all;
}

std::string difference(const Gradients& got, const Gradients& wanted, bool float64) {
  const double bound = float64 ? 1e-14 : 4e-6;
  if (got.size() != wanted.size()) return "another number of programs";
  for (std::size_t step = 0; step < wanted.size(); ++step) {
    for (std::size_t i = 0; i < wanted[step].size(); ++i) {
      const Tensor &a = got[step].at(i), &b = wanted[step][i];
      if (a.defined() != b.defined())
        return fmt::format("step {} leaf {}: only one is defined", step, i);
      if (!a.defined()) continue;
      const double apart = (a - b).abs().max().item<double>(), most = b.abs().max().item<double>();
      if (!(apart <= bound * most))
        return fmt::format("step {} leaf {}: {} of {}", step, i, apart, most);
    }
  }
  return "";
}

}  // namespace rehearse::programs
