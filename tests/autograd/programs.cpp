#include "tests/autograd/programs.hpp"

#include <ATen/Functions.h>
#include <ATen/SequenceNumber.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <set>

#include "tests/autograd/graphs.hpp"

namespace rehearse::autograd::testing {
namespace {

constexpr std::uint32_t kDepth = 3;
constexpr ContextId kContext = 1;

class ProgramMaker {
 public:
  explicit ProgramMaker(std::uint64_t seed) : random_(seed) {}

  Program make() {
    program_.workers = 2 + static_cast<std::uint32_t>(random_.below(4));
    handler(0, kDepth);
    return std::move(program_);
  }

 private:
  std::uint32_t handler(std::uint32_t worker, std::uint32_t depth) {
    const auto number = static_cast<std::uint32_t>(program_.handlers.size());
    program_.handlers.emplace_back();
    const std::uint64_t steps = depth == kDepth ? 12 : 4 + random_.below(4);
    for (std::uint64_t i = 0; i < steps; ++i) {
      const Step made = step(worker, depth);
      program_.handlers[number].push_back(made);
    }
    return number;
  }

  Step step(std::uint32_t worker, std::uint32_t depth) {
    Step step;
    step.x = draw(5);
    step.y = draw(5);
    step.pick = draw(1000);
    const std::uint32_t kind = draw(10);
    if (kind >= 5 && kind < 9 && depth > 0) {
      step.kind = Step::Kind::call;
      step.worker = (worker + 1 + draw(program_.workers - 1)) % program_.workers;
      step.handler = handler(step.worker, depth - 1);
    } else if (kind == 9) {
      step.kind = Step::Kind::wait;
    } else {
      step.kind = static_cast<Step::Kind>(kind % 4);
    }
    return step;
  }

  std::uint32_t draw(std::uint32_t bound) {
    return static_cast<std::uint32_t>(random_.below(bound));
  }

  Random random_;
  Program program_;
};

// What a wire would do: other memory, the same strides.
at::Tensor copied(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.detach().clone() : tensor;
}

}  // namespace

Program random_program(std::uint64_t seed) { return ProgramMaker(seed).make(); }

struct Job::Task {
  std::uint32_t handler = 0;
  std::uint32_t worker = 0;
  std::shared_ptr<const CallPath> path;
  Task* caller = nullptr;
  std::uint32_t call = 0;  // its number at the caller
  std::uint32_t issued = 0;
  std::size_t next = 0;
  std::vector<at::Tensor> values;
  std::vector<std::uint32_t> pending;
  std::map<std::uint32_t, std::vector<at::Tensor>> arrived;

  at::Tensor value(std::uint32_t back) const {
    return values[values.size() - 1 - back % values.size()];
  }
};

struct Job::Message {
  std::uint32_t from = 0;
  std::vector<at::Tensor> tensors;
  std::vector<bool> flags;
  PairId pair;
  bool has_pair = false;
  Task* task = nullptr;  // to start, or that waits for a reply
  bool request = false;
  std::uint32_t call = 0;
};

Job::Job(const Program& program, bool cut, std::uint64_t leaf_seed, Random random)
    : program_(program), cut_(cut), random_(random), workers_(program.workers) {
  for (std::uint32_t i = 0; i < program.workers; ++i) {
    for (std::uint64_t k = 0; k < 2; ++k) {
      workers_[i].leaves.push_back(random_leaf(leaf_seed + 2 * i + k, {4, 4}));
    }
  }
}

Job::~Job() = default;

std::vector<at::Tensor> Job::forward() {
  Task& root = tasks_.emplace_back();
  root.path = std::make_shared<const CallPath>(CallPath{1});
  start(root);
  while (!in_the_air_.empty()) {
    std::swap(in_the_air_[random_.below(in_the_air_.size())], in_the_air_.back());
    Message message = std::move(in_the_air_.back());
    in_the_air_.pop_back();
    deliver(std::move(message));
  }
  return returned_;
}

void Job::open(Task& task) {
  workers_[task.worker].segments.open(at::sequence_number::peek(), task.path, task.issued);
}

void Job::close(Task& task) { workers_[task.worker].segments.close(at::sequence_number::peek()); }

void Job::start(Task& task) {
  open(task);
  task.values.push_back(workers_[task.worker].leaves[0].tanh());
  advance(task);
  close(task);
}

// Until the task ends or waits. Its segment is open.
void Job::advance(Task& task) {
  const auto& steps = program_.handlers[task.handler];
  while (task.next < steps.size()) {
    if (!step(task)) return;
    ++task.next;
  }
  while (!task.pending.empty()) {
    if (!wait(task, 0)) return;
  }
  finish(task);
}

bool Job::step(Task& task) {
  const Step& step = program_.handlers[task.handler][task.next];
  const at::Tensor x = task.value(step.x);
  const at::Tensor y = task.value(step.y);
  const at::Tensor leaf = workers_[task.worker].leaves[step.pick % 2];
  switch (step.kind) {
    case Step::Kind::layer:
      task.values.push_back(at::tanh(x.mm(leaf) + leaf));
      break;
    case Step::Kind::product:
      task.values.push_back((x * leaf).sin() + y * leaf);
      break;
    case Step::Kind::split: {
      const auto parts = x.split(2);
      task.values.push_back(at::cat({parts[1], parts[0]}) - y);
      break;
    }
    case Step::Kind::write_to_view: {
      at::Tensor base = x * 1.25;
      const at::Tensor view = base.view({4, 4});
      base.narrow(0, 1, 2).mul_(y.narrow(0, 2, 2));
      base.add_(leaf);
      task.values.push_back(step.pick % 3 ? view : base.tanh());
      break;
    }
    case Step::Kind::call:
      issue(task, step);
      break;
    case Step::Kind::wait:
      return task.pending.empty() || wait(task, step.pick);
  }
  return true;
}

bool Job::wait(Task& task, std::uint32_t pick) {
  const auto which = task.pending.begin() + pick % task.pending.size();
  const auto found = task.arrived.find(*which);
  if (found == task.arrived.end()) return false;
  for (at::Tensor& result : found->second) task.values.push_back(std::move(result));
  task.pending.erase(which);
  return true;
}

void Job::issue(Task& task, const Step& step) {
  std::vector<at::Tensor> arguments{task.value(step.x)};
  if (step.pick % 2) arguments.push_back(task.value(step.y));
  if (step.pick % 5 == 0) arguments.push_back(arguments[0]);

  Task& callee = tasks_.emplace_back();
  callee.handler = step.handler;
  callee.worker = step.worker;
  CallPath path = *task.path;
  path.push_back(2 * task.issued + 1);
  callee.path = std::make_shared<const CallPath>(std::move(path));
  callee.caller = &task;
  callee.call = task.issued;
  task.pending.push_back(task.issued);
  if (cut_) {
    Message message = pack(task.worker, arguments);
    message.request = true;
    message.task = &callee;
    in_the_air_.push_back(std::move(message));
  }
  close(task);
  ++task.issued;
  if (!cut_) {
    callee.values = cut_identity(arguments);
    start(callee);
  }
  open(task);
}

std::vector<at::Tensor> Job::results(Task& task) {
  if (task.caller) {
    const at::Tensor& leaf = workers_[task.worker].leaves[0];
    return {at::tanh(task.value(0) + task.value(2) * leaf), task.value(1)};
  }
  at::Tensor first = at::zeros({});
  at::Tensor second = at::zeros({});
  for (std::size_t i = 0; i < task.values.size(); ++i) {
    if (i % 3 != 0) {
      first = first + task.values[i].pow(2).mean();
    } else {
      second = second + task.values[i].sin().sum();
    }
  }
  return {first, second};
}

void Job::finish(Task& task) {
  const std::vector<at::Tensor> values = results(task);
  if (!task.caller) {
    returned_ = values;
  } else if (cut_) {
    Message message = pack(task.worker, values);
    message.task = task.caller;
    message.call = task.call;
    in_the_air_.push_back(std::move(message));
  } else {
    task.caller->arrived[task.call] = cut_identity(values);
  }
}

Job::Message Job::pack(std::uint32_t from, const std::vector<at::Tensor>& tensors) {
  Message message;
  message.from = from;
  message.pair = PairId(static_cast<WorkerId>(from), ++next_pair_);
  if (auto node = cut_send(tensors, message.pair)) {
    workers_[from].sent[message.pair] = std::move(node);
    message.has_pair = true;
  }
  for (const at::Tensor& tensor : tensors) {
    message.tensors.push_back(copied(tensor));
    message.flags.push_back(tensor.defined() && tensor.requires_grad());
  }
  return message;
}

std::vector<at::Tensor> Job::unpack(Message& message) {
  if (message.has_pair) {
    cut_receive(message.tensors, message.flags, {kContext, message.pair},
                worker_name(static_cast<WorkerId>(message.from)));
  }
  return std::move(message.tensors);
}

void Job::deliver(Message message) {
  Task& task = *message.task;
  std::vector<at::Tensor> tensors = unpack(message);
  if (message.request) {
    task.values = std::move(tensors);
    return start(task);
  }
  task.arrived[message.call] = std::move(tensors);
  open(task);
  advance(task);
  close(task);
}

// Which send nodes a pass uses, found by walking over all workers at once.
std::vector<std::vector<PairId>> Job::reached(const std::vector<at::Tensor>& roots) const {
  std::vector<std::set<PairId>> found(workers_.size());
  std::vector<torch::autograd::Node*> stack;
  std::set<torch::autograd::Node*> seen;
  for (const at::Tensor& root : roots) stack.push_back(root.grad_fn().get());
  while (!stack.empty()) {
    torch::autograd::Node* node = stack.back();
    stack.pop_back();
    if (!node || !seen.insert(node).second) continue;
    for (const auto& edge : node->next_edges()) stack.push_back(edge.function.get());
    if (const auto from = received(*node)) {
      found[from->pair.owner()].insert(from->pair);
      stack.push_back(as_node(workers_[from->pair.owner()].sent.at(from->pair)).get());
    }
  }
  std::vector<std::vector<PairId>> sorted;
  for (const auto& pairs : found) sorted.emplace_back(pairs.begin(), pairs.end());
  return sorted;
}

std::vector<GradientMap> Job::backward(const std::vector<at::Tensor>& roots,
                                       ExecutorOptions options) {
  const auto pairs = reached(roots);
  CallPath path = *tasks_.front().path;
  path.push_back(2 * tasks_.front().issued++ + 1);
  options.context = kContext;
  options.path = std::make_shared<const CallPath>(std::move(path));
  std::vector<Executor> executors(workers_.size());
  key_inversions_ = 0;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    std::vector<std::shared_ptr<SendNode>> sends;
    for (const PairId pair : pairs[i]) sends.push_back(workers_[i].sent.at(pair));
    options.segments = &workers_[i].segments;
    const auto here = i == 0 ? roots_of(roots) : std::vector<Root>();
    executors[i].plan(here, sends, options).or_throw();
    key_inversions_ += executors[i].key_inversions();
  }
  exchange(executors, options.path);
  std::vector<GradientMap> captured;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    executors[i].release();
    captured.push_back(std::move(executors[i].staged()));
    workers_[i].segments.freeze();
  }
  return captured;
}

// Gradients with a history are cut like any message, in the segment of the node that they leave
// or enter.
void Job::exchange(std::vector<Executor>& executors, const std::shared_ptr<const CallPath>& path) {
  std::vector<std::pair<PairId, Message>> gradients;
  const auto all_done = [&] {
    return std::all_of(executors.begin(), executors.end(), [](auto& e) { return e.done(); });
  };
  while (!all_done()) {
    const auto from = static_cast<std::uint32_t>(random_.below(executors.size()));
    executors[from].run_slice(1 + random_.below(6)).or_throw();
    for (auto& out : executors[from].take_outbox()) {
      workers_[from].segments.open(at::sequence_number::peek(), path, out.place);
      gradients.emplace_back(out.pair, pack(from, out.gradients));
      workers_[from].segments.close(at::sequence_number::peek());
    }
    if (gradients.empty() || random_.chance(0.5)) continue;
    std::swap(gradients[random_.below(gradients.size())], gradients.back());
    auto [pair, message] = std::move(gradients.back());
    gradients.pop_back();
    Executor& executor = executors[pair.owner()];
    Segments& segments = workers_[pair.owner()].segments;
    segments.open(at::sequence_number::peek(), path, executor.place(pair));
    auto tensors = unpack(message);
    segments.close(at::sequence_number::peek());
    executor.feed(pair, std::move(tensors)).or_throw();
  }
}

at::Tensor Job::penalty(const std::vector<std::vector<at::Tensor>>& gradients) {
  Task& root = tasks_.front();
  at::Tensor total = at::zeros({});
  for (std::uint32_t i = 0; i < workers_.size(); ++i) {
    CallPath path = *root.path;
    path.push_back(2 * root.issued++ + 1);
    Segments& segments = workers_[i].segments;
    segments.open(at::sequence_number::peek(), std::make_shared<const CallPath>(path), 0);
    std::vector<at::Tensor> share{at::zeros({})};
    for (const at::Tensor& gradient : gradients[i]) {
      if (gradient.defined()) share[0] = share[0] + gradient.pow(2).sum();
    }
    Message message;
    if (cut_) message = pack(i, share);
    segments.close(at::sequence_number::peek());
    share = cut_ ? unpack(message) : cut_identity(share);
    open(root);
    total = total + share[0];
    close(root);
  }
  return total;
}

}  // namespace rehearse::autograd::testing
