#include "workloads/random_program.hpp"

#include <algorithm>
#include <string>

#include "workloads/layers.hpp"
#include "workloads/tensor.hpp"

namespace rehearse::workloads {
namespace {

// A routine that is being run.
class Frame {
 public:
  Frame(Machine& machine, Tensors arguments) : machine_(machine), pool_(std::move(arguments)) {
    pool_.push_back(machine_.leaf(0).tanh());
  }

  void step(const Instruction& instruction) {
    const at::Tensor x = pick(instruction.a), y = pick(instruction.b);
    switch (instruction.op) {
      case Op::matmul:
        return push((x.mm(leaf(instruction)) + leaf(instruction)).tanh());
      case Op::mix:
        return push((x * leaf(instruction)).sin() + y * leaf(instruction));
      case Op::in_place:
        return write_in_place(x, y, leaf(instruction));
      case Op::split: {
        const auto rows = x.split(2);
        return push(at::cat(Tensors{rows[2], rows[0], rows[1]}) - y);
      }
      case Op::detach:
        return push(x.detach());
      case Op::call:
        return call(instruction, x, y);
      case Op::wait:
        return wait(instruction);
    }
  }

  void wait_for_all() {
    for (const std::size_t call : std::exchange(open_, {})) take(machine_.wait(call));
  }

  Tensors results(std::uint32_t count) {
    Tensors results{(pick(0) + pick(1) * machine_.leaf(0)).tanh()};
    if (count > 1) results.push_back(pool_.back());
    if (count > 2) results.push_back(results[0]);  // the same tensor twice in one message
    return results;
  }

  const Tensors& pool() const { return pool_; }

 private:
  at::Tensor pick(std::uint32_t from_newest) const {
    const std::size_t recent = std::min<std::size_t>(pool_.size(), 5);
    return pool_[pool_.size() - 1 - from_newest % recent];
  }
  at::Tensor leaf(const Instruction& instruction) { return machine_.leaf(instruction.leaf); }
  void push(at::Tensor tensor) { pool_.push_back(std::move(tensor)); }
  void take(const Tensors& tensors) { pool_.insert(pool_.end(), tensors.begin(), tensors.end()); }

  // Views taken before a write: their functions are made anew, with a later sequence number.
  void write_in_place(const at::Tensor& x, const at::Tensor& y, const at::Tensor& leaf) {
    const at::Tensor base = x * 1.25;
    const at::Tensor turned = base.t();
    base.narrow(0, 1, 3).mul_(y.narrow(0, 2, 3));
    base.add_(leaf);
    push((turned * leaf).tanh() + base.sin());
  }

  void call(const Instruction& instruction, const at::Tensor& x, const at::Tensor& y) {
    Tensors arguments{x};
    if (instruction.arguments > 1) arguments.push_back(y);
    if (instruction.arguments > 2) arguments.push_back(x);
    const c10::AutoGradMode mode(!instruction.no_grad && at::GradMode::is_enabled());
    const std::size_t number = machine_.call(instruction.worker, *instruction.body, arguments);
    if (instruction.wait_at_once) return take(machine_.wait(number));
    if (!instruction.unused) open_.push_back(number);
  }

  void wait(const Instruction& instruction) {
    if (open_.empty()) return;
    const auto chosen = open_.begin() + instruction.a % open_.size();
    const std::size_t number = *chosen;
    open_.erase(chosen);
    take(machine_.wait(number));
  }

  Machine& machine_;
  Tensors pool_;
  std::vector<std::size_t> open_;  // calls that are to be waited for
};

Instruction draw_instruction(Random& random, std::uint32_t& nodes, std::uint32_t workers,
                             int depth) {
  Instruction drawn;
  // Calls and waits are half of a program, where calls may nest.
  const std::uint64_t kind = random.below(10);
  drawn.op = kind < 5   ? static_cast<Op>(random.below(4))
             : kind < 8 ? Op::call
             : kind < 9 ? Op::wait
                        : Op::mix;
  if (random.below(40) == 0) drawn.op = Op::detach;
  if (drawn.op == Op::call && depth == 0) drawn.op = Op::matmul;
  drawn.a = static_cast<std::uint32_t>(random.below(5));
  drawn.b = static_cast<std::uint32_t>(random.below(5));
  drawn.leaf = static_cast<std::uint32_t>(random.below(kLeaves));
  if (drawn.op != Op::call) return drawn;
  drawn.worker = static_cast<std::uint32_t>(random.below(workers));
  drawn.arguments = 1 + static_cast<std::uint32_t>(random.below(3));
  drawn.wait_at_once = random.below(3) == 0;
  drawn.unused = !drawn.wait_at_once && random.below(6) == 0;
  drawn.no_grad = random.below(16) == 0;
  const auto share =
      1 + static_cast<std::uint32_t>(random.below(std::max<std::uint32_t>(nodes / 2, 1)));
  nodes -= std::min(nodes, share);
  drawn.body = std::make_shared<const Routine>(draw_routine(random, share, workers, depth - 1));
  return drawn;
}

}  // namespace

Tensors run(Machine& machine, const Routine& routine, const Tensors& arguments) {
  Frame frame(machine, arguments);
  for (const auto& instruction : routine.instructions) frame.step(instruction);
  frame.wait_for_all();
  return frame.results(routine.results);
}

Losses run_root(Machine& machine, const Routine& routine) {
  Frame frame(machine, {});
  for (const auto& instruction : routine.instructions) frame.step(instruction);
  frame.wait_for_all();
  at::Tensor first = at::zeros({}), second = at::zeros({});
  for (std::size_t i = 0; i < frame.pool().size(); ++i) {
    const at::Tensor& tensor = frame.pool()[i];
    if (i % 3 != 0) first = first + tensor.square().mean();
    if (i % 3 != 1) second = second + tensor.sin().sum();
  }
  return {first, second};
}

Routine draw_routine(Random& random, std::uint32_t nodes, std::uint32_t workers, int depth) {
  Routine routine;
  routine.results = 1 + static_cast<std::uint32_t>(random.below(3));
  while (nodes > 0) {
    --nodes;
    routine.instructions.push_back(draw_instruction(random, nodes, workers, depth));
  }
  return routine;
}

at::Tensor make_leaf(std::uint64_t seed, std::uint32_t worker, std::uint32_t index,
                     at::ScalarType dtype) {
  const std::string name = "leaf" + std::to_string(worker) + "." + std::to_string(index);
  return uniform(seed, name, {kSide, kSide}, 0.6, dtype).set_requires_grad(true);
}

PlainMachine::PlainMachine(std::uint64_t seed, std::uint32_t workers, at::ScalarType dtype)
    : workers_(workers) {
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    for (std::uint32_t i = 0; i < kLeaves; ++i)
      leaves_.push_back(make_leaf(seed, worker, i, dtype));
  }
}

std::size_t PlainMachine::call(std::uint32_t worker, const Routine& body,
                               const Tensors& arguments) {
  const std::uint32_t caller = std::exchange(self_, worker % workers_);
  Tensors results = run(*this, body, arguments);
  self_ = caller;
  // Under no_grad the arguments' history ends at the call.
  results_.push_back(std::move(results));
  return results_.size() - 1;
}

}  // namespace rehearse::workloads
