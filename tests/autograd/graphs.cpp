#include "tests/autograd/graphs.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>

#include "runtime/base/random.hpp"

namespace rehearse::autograd::testing {
namespace {

class GraphMaker {
 public:
  GraphMaker(std::uint64_t seed, at::ScalarType dtype) : random_(seed) {
    for (int i = 0; i < 3; ++i) leaves_.push_back(random_leaf(random_(), {4, 4}, dtype));
    pool_ = leaves_;
  }

  RandomGraph make(int operations) {
    for (int i = 0; i < operations; ++i) add_operation();
    at::Tensor total = pool_[3].sum();
    for (std::size_t i = 4; i < pool_.size(); ++i) {
      if (i % 3 != 0) total = total + pool_[i].pow(2).mean();
    }
    std::vector<at::Tensor> roots{total, pool_.back().sin().sum(), pool_[pool_.size() / 2].sum()};
    return {leaves_, roots};
  }

 private:
  // Recent results are likelier: deep graphs, with shortcuts from the leaves.
  at::Tensor pick() {
    const std::uint64_t recent =
        random_.chance(0.7) ? std::min<std::uint64_t>(5, pool_.size()) : pool_.size();
    return pool_[pool_.size() - 1 - random_.below(recent)];
  }

  void add_operation() {
    const at::Tensor x = pick();
    const at::Tensor y = pick();
    const at::Tensor leaf = leaves_[random_.below(leaves_.size())];
    switch (random_.below(8)) {
      case 0:
        return pool_.push_back(at::tanh(x.mm(leaf) + y));
      case 1:
        return pool_.push_back((x * leaf).sin() + y * leaf);
      case 2:
        return pool_.push_back(at::addcmul(x, y, leaf));
      case 3:
        return write_to_views(x, y, leaf);
      case 4:
        return split(x, y);
      case 5:
        return pool_.push_back(at::stack(x.unbind(1), 0) * y.sigmoid());
      case 6:
        return pool_.push_back(at::where(x > 0, y, leaf * 0.5) - x);
      default:
        return pool_.push_back(x.sum(0, true) * 0.1 + y.t());
    }
  }

  void write_to_views(const at::Tensor& x, const at::Tensor& y, const at::Tensor& leaf) {
    at::Tensor base = x * 1.25;
    const at::Tensor rows = base.view({4, 4});
    const at::Tensor turned = base.t();
    base.narrow(0, 1, 2).mul_(y.narrow(0, 2, 2).tanh());
    base.add_(leaf);
    if (random_.chance(0.5)) pool_.push_back((rows * leaf).tanh() + turned.sin());
    pool_.push_back(random_.chance(0.5) ? rows : base.tanh());
  }

  void split(const at::Tensor& x, const at::Tensor& y) {
    const std::vector<at::Tensor> parts = x.split(1);
    pool_.push_back(at::cat({parts[2], parts[0], parts[3], parts[0]}) - y * 0.5);
  }

  Random random_;
  std::vector<at::Tensor> leaves_;
  std::vector<at::Tensor> pool_;
};

}  // namespace

at::Tensor random_leaf(std::uint64_t seed, at::IntArrayRef sizes, at::ScalarType dtype) {
  Random random(seed);
  at::Tensor values = at::empty(sizes, at::kDouble);
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    values.mutable_data_ptr<double>()[i] = random.unit() - 0.5;
  }
  return values.to(dtype).requires_grad_(true);
}

RandomGraph random_graph(std::uint64_t seed, at::ScalarType dtype, int operations) {
  return GraphMaker(seed, dtype).make(operations);
}

std::vector<Root> roots_of(const std::vector<at::Tensor>& tensors) {
  std::vector<Root> roots;
  for (const at::Tensor& tensor : tensors) roots.push_back({tensor, {}});
  return roots;
}

GradientMap run_pass(Executor& executor, const std::vector<Root>& roots, ExecutorOptions options) {
  executor.plan(roots, {}, std::move(options)).or_throw();
  while (executor.run_slice(7).or_throw()) {
  }
  REHEARSE_CHECK(executor.done(), "a local pass needs nothing from outside");
  executor.release();
  return std::move(executor.staged());
}

std::vector<at::Tensor> torch_gradients(const std::vector<at::Tensor>& roots,
                                        const std::vector<at::Tensor>& leaves, bool create_graph) {
  // With a history, backward would keep copies of the gradients, which are nodes of the next order.
  if (create_graph) return torch::autograd::grad(roots, leaves, {}, true, true, true);
  torch::autograd::backward(roots, {}, true);
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& leaf : leaves) {
    gradients.push_back(leaf.grad());
    leaf.mutable_grad() = at::Tensor();
  }
  return gradients;
}

bool same(const at::Tensor& left, const at::Tensor& right) {
  if (!left.defined() || !right.defined()) return left.defined() == right.defined();
  if (left.layout() == at::kStrided && left.strides() != right.strides()) return false;
  return digest(left) == digest(right);
}

}  // namespace rehearse::autograd::testing
