#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/autograd/cut_nodes.hpp"
#include "runtime/autograd/executor.hpp"
#include "runtime/autograd/segments.hpp"
#include "runtime/base/random.hpp"

namespace rehearse::autograd::testing {

/// One instruction of a handler. Operands count back from the newest value it has.
struct Step {
  enum class Kind { layer, product, write_to_view, split, call, wait };
  Kind kind = Kind::layer;
  std::uint32_t x = 0;
  std::uint32_t y = 0;
  std::uint32_t handler = 0;  ///< of a call
  std::uint32_t worker = 0;   ///< where it goes
  std::uint32_t pick = 0;     ///< a variant, or which call to wait for
};

/// Handlers that call each other over workers, several calls in the air at once. Handler 0 is the
/// root, on worker 0; it returns two scalars that share most of their graph.
struct Program {
  std::uint32_t workers = 0;
  std::vector<std::vector<Step>> handlers;
};

Program random_program(std::uint64_t seed);

/// Runs a program, either as one graph with every call in its place (`uncut`), or cut at each
/// message, with all workers on this thread and messages delivered in an order drawn from `random`.
class Job {
 public:
  struct Worker {
    std::vector<at::Tensor> leaves;
    Segments segments;
    std::map<PairId, std::shared_ptr<SendNode>> sent;
  };

  Job(const Program& program, bool cut, std::uint64_t leaf_seed, Random random);
  ~Job();

  /// The scalars that the root handler returned.
  std::vector<at::Tensor> forward();

  /// One backward pass over all workers: what each captured. Gradients travel, and slices run, in
  /// random order. REQUIRES: cut; `forward` has returned.
  std::vector<GradientMap> backward(const std::vector<at::Tensor>& roots, ExecutorOptions options);

  /// Continues the root handler: the sum of squares of all gradients, each worker's share computed
  /// there, as if the root called it.
  at::Tensor penalty(const std::vector<std::vector<at::Tensor>>& gradients);

  std::vector<Worker>& workers() { return workers_; }
  /// Of the last pass, over all workers.
  std::uint32_t key_inversions() const { return key_inversions_; }

 private:
  struct Task;
  struct Message;

  void start(Task& task);
  void advance(Task& task);
  bool step(Task& task);
  void finish(Task& task);
  bool wait(Task& task, std::uint32_t pick);
  void issue(Task& task, const Step& step);
  std::vector<at::Tensor> results(Task& task);
  Message pack(std::uint32_t from, const std::vector<at::Tensor>& tensors);
  std::vector<at::Tensor> unpack(Message& message);
  void deliver(Message message);
  void open(Task& task);
  void close(Task& task);
  void exchange(std::vector<Executor>& executors, const std::shared_ptr<const CallPath>& path);
  std::vector<std::vector<PairId>> reached(const std::vector<at::Tensor>& roots) const;

  const Program& program_;
  bool cut_;
  Random random_;
  std::vector<Worker> workers_;
  std::deque<Task> tasks_;
  std::vector<Message> in_the_air_;
  std::vector<at::Tensor> returned_;
  std::uint64_t next_pair_ = 0;
  std::uint32_t key_inversions_ = 0;
};

}  // namespace rehearse::autograd::testing
