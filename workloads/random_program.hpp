#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/random.hpp"

/// Random programs of tensors and calls, as data: they can be drawn from a seed, sent to another
/// worker, printed, shrunk, and run on anything that has leaves and calls.
namespace rehearse::workloads {

struct Routine;

/// What one instruction does. `x` and `y` are recent tensors of the routine, chosen by `a` and `b`
/// from the newest on, so that a program stays valid when instructions are taken out of it.
enum class Op : std::uint8_t {
  matmul,    ///< tanh(x · leaf + leaf)
  mix,       ///< sin(x · leaf) + y · leaf, element by element
  in_place,  ///< a copy of x, part of it multiplied in place by part of y; seen through a view
  split,     ///< rows of x in another order, minus y: several outputs of one node
  detach,    ///< x without its history
  call,      ///< `body` on worker `worker` with x, and by `arguments` y and x again
  wait,      ///< the results of a call that is not waited for yet
};
inline constexpr int kOps = 7;

struct Instruction {
  Op op{};
  std::uint32_t a = 0, b = 0;
  std::uint32_t leaf = 0;               ///< which leaf of the worker
  std::uint32_t worker = 0;             ///< of a call, modulo the number of workers
  std::uint32_t arguments = 1;          ///< of a call: 1 to 3
  bool wait_at_once = false;            ///< of a call
  bool unused = false;                  ///< of a call: nobody ever waits for it
  bool no_grad = false;                 ///< of a call: made under no_grad
  std::shared_ptr<const Routine> body;  ///< of a call
};

/// What a handler runs. It returns 1 to 3 tensors.
struct Routine {
  std::vector<Instruction> instructions;
  std::uint32_t results = 1;
};

using Tensors = std::vector<at::Tensor>;

/// What a routine runs on.
class Machine {
 public:
  virtual ~Machine() = default;
  virtual at::Tensor leaf(std::uint32_t index) = 0;
  /// Starts `body` on a worker; returns the number of the call.
  virtual std::size_t call(std::uint32_t worker, const Routine& body, const Tensors& arguments) = 0;
  virtual Tensors wait(std::size_t call) = 0;
};

/// Leaves of a worker; each is kSide x kSide, so that every operation fits every tensor.
inline constexpr std::uint32_t kLeaves = 2;
inline constexpr std::int64_t kSide = 6;

/// Runs a routine as a handler would.
Tensors run(Machine& machine, const Routine& routine, const Tensors& arguments);

/// Runs it as the root: two losses that share their graph and use most of its tensors.
struct Losses {
  at::Tensor first, second;
};
Losses run_root(Machine& machine, const Routine& routine);

/// About `nodes` instructions in all, calls nested up to `depth`.
Routine draw_routine(Random& random, std::uint32_t nodes, std::uint32_t workers, int depth = 4);

/// A worker's leaf, from the job's seed.
at::Tensor make_leaf(std::uint64_t seed, std::uint32_t worker, std::uint32_t index,
                     at::ScalarType dtype);

/// The same program on one machine without any cut: a call runs its body at once.
class PlainMachine final : public Machine {
 public:
  PlainMachine(std::uint64_t seed, std::uint32_t workers, at::ScalarType dtype);
  at::Tensor leaf(std::uint32_t index) override {
    return leaves_.at(self_ * kLeaves + index % kLeaves);
  }
  std::size_t call(std::uint32_t worker, const Routine& body, const Tensors& arguments) override;
  Tensors wait(std::size_t call) override { return results_.at(call); }
  const Tensors& leaves() const { return leaves_; }  ///< of all workers, worker by worker

 private:
  std::uint32_t workers_;
  std::uint32_t self_ = 0;
  Tensors leaves_;
  std::vector<Tensors> results_;
};

std::string encode(const Routine& routine);
/// Throws Error{corrupt}.
Routine decode_routine(std::string_view text);
/// For people: one line an instruction, bodies indented.
std::string to_text(const Routine& routine, int indent = 0);

}  // namespace rehearse::workloads
