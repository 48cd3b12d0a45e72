#include "runtime/autograd/executor.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "runtime/base/random.hpp"
#include "tests/autograd/graphs.hpp"

namespace rehearse::autograd {
namespace {

using namespace testing;

// Runs torch's engine and ours over the same roots; every leaf must have the same bits and strides.
void expect_same(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& leaves) {
  const std::vector<at::Tensor> expected = torch_gradients(roots, leaves);
  Executor executor;
  const GradientMap gradients = run_pass(executor, roots_of(roots));
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    EXPECT_TRUE(same(gradients.gradient(leaves[i]), expected[i])) << "leaf " << i;
    EXPECT_FALSE(leaves[i].grad().defined()) << "leaf " << i << " has a .grad";
  }
}

// The reference is torch's engine on the very same graph; equal means equal bits.
RC_GTEST_PROP(Executor, GivesTheBitsOfTorchsEngineOnRandomGraphs, (std::uint64_t seed)) {
  const auto dtype = *rc::gen::element(at::kFloat, at::kDouble);
  const RandomGraph graph = random_graph(seed, dtype, *rc::gen::inRange(3, 60));
  const std::vector<at::Tensor> expected = torch_gradients(graph.roots, graph.leaves);
  Executor executor;
  const GradientMap gradients = run_pass(executor, roots_of(graph.roots));
  for (std::size_t i = 0; i < graph.leaves.size(); ++i) {
    RC_ASSERT(same(gradients.gradient(graph.leaves[i]), expected[i]));
  }
}

// Torch adds each root's contributions in the order of the roots, before any node's.
TEST(Executor, AddsSharedAndDuplicatedRootsAsTorch) {
  const at::Tensor x = random_leaf(1, {4, 4});
  const at::Tensor y = (x * x).sum();
  const at::Tensor z = (y * 0.1 + x.sin().sum());
  expect_same({y, z, y, z, y}, {x});
}

TEST(Executor, ALeafMayBeARoot) {
  const at::Tensor x = random_leaf(1, {});
  expect_same({x, x * x, x}, {x});
}

TEST(Executor, TakesAllFloatingAndComplexTypes) {
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kComplexFloat, at::kComplexDouble}) {
    const at::Tensor x = random_leaf(3, {4, 5}, dtype);
    const at::Tensor y = (x * x.conj() + x * 0.3) * x.neg();
    expect_same({at::real(y * y.conj()).sum()}, {x});
  }
}

TEST(Executor, TakesEmptyTensors) {
  const at::Tensor x = random_leaf(3, {3, 0});
  expect_same({(x * x).sum()}, {x});
}

// Sparse and dense contributions to one buffer follow rules of their own, in both orders.
TEST(Executor, AddsSparseAndDenseGradientsAsTorch) {
  const at::Tensor table = random_leaf(5, {10, 4});
  const at::Tensor rows = at::arange(0, 6, at::kLong).mul(3).remainder(10);
  const auto look_up = [&](double scale) {
    return (at::embedding(table, rows, -1, false, true) * scale).sin().sum();
  };
  expect_same({look_up(1)}, {table});
  expect_same({look_up(1) + look_up(2)}, {table});
  expect_same({look_up(1) + look_up(2) + (table * table).sum()}, {table});
  expect_same({(table * table).sum() + look_up(1) + look_up(2) + table.sum()}, {table});
}

// Strides of a gradient follow its leaf's, also where nothing can be taken over.
TEST(Executor, KeepsTorchsGradientLayout) {
  const at::Tensor x = random_leaf(5, {4, 6}).detach().t().requires_grad_(true);
  expect_same({(x * x).sum()}, {x});
  expect_same({x.mm(x.t()).sum(), x.sum()}, {x});
}

struct Undefined : torch::autograd::Function<Undefined> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x,
                            const at::Tensor& y) {
    return x + y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {at::Tensor(), gradients[0] * 2};
  }
};

TEST(Executor, PassesUndefinedGradientsOn) {
  const at::Tensor x = random_leaf(1, {4});
  const at::Tensor y = random_leaf(2, {4});
  expect_same({Undefined::apply(x.sin(), y).sum()}, {x, y});
  expect_same({Undefined::apply(x.sin(), y).sum() + (x * y).sum()}, {x, y});
}

struct Reentrant : torch::autograd::Function<Reentrant> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x.detach().pow(3);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::AutoGradMode mode(true);
    const at::Tensor x = context->get_saved_variables()[0].detach().requires_grad_(true);
    return {torch::autograd::grad({x.pow(3)}, {x}, {gradients[0]})[0]};
  }
};

TEST(Executor, ANodeMayCallTorchsEngine) {
  const at::Tensor x = random_leaf(1, {4, 4});
  expect_same({Reentrant::apply(x * 2).sum() + x.sum()}, {x});
}

TEST(Executor, CapturesOnlyTheLeavesAskedFor) {
  const RandomGraph graph = random_graph(11, at::kFloat);
  const at::Tensor wanted = graph.leaves[1];
  const at::Tensor expected =
      torch::autograd::grad(graph.roots, {wanted}, {}, true, false, true)[0];
  Executor executor;
  ExecutorOptions options;
  options.inputs = {wanted};
  const GradientMap gradients = run_pass(executor, roots_of(graph.roots), options);
  EXPECT_TRUE(same(gradients.gradient(wanted), expected));
  EXPECT_EQ(gradients.size(), 1u);
}

// With create_graph the gradients have a history; torch's engine takes their gradients.
RC_GTEST_PROP(Executor, SecondOrderHasTheBitsOfTorchs, (std::uint64_t seed)) {
  const RandomGraph graph = random_graph(seed, at::kDouble, 12);
  const auto second_order = [&](const std::vector<at::Tensor>& first) {
    at::Tensor total = at::zeros({}, at::kDouble);
    for (const at::Tensor& gradient : first) {
      if (gradient.defined() && gradient.requires_grad()) total = total + gradient.pow(2).sum();
    }
    return total.requires_grad() ? torch_gradients({total}, graph.leaves)
                                 : std::vector<at::Tensor>(graph.leaves.size());
  };
  const auto expected = second_order(torch_gradients(graph.roots, graph.leaves, true));

  Executor executor;
  ExecutorOptions options;
  options.create_graph = true;
  const GradientMap first = run_pass(executor, roots_of(graph.roots), options);
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& leaf : graph.leaves) gradients.push_back(first.gradient(leaf));
  const auto second = second_order(gradients);
  for (std::size_t i = 0; i < expected.size(); ++i) RC_ASSERT(same(second[i], expected[i]));
}

// One executor, pass after pass, over graphs of different sizes.
TEST(Executor, IsUsedAgain) {
  Executor executor;
  for (const int operations : {40, 5, 60, 1}) {
    const RandomGraph graph = random_graph(operations, at::kFloat, operations);
    const auto expected = torch_gradients(graph.roots, graph.leaves);
    const GradientMap gradients = run_pass(executor, roots_of(graph.roots));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(same(gradients.gradient(graph.leaves[i]), expected[i]));
    }
  }
}

// Planning, running and destruction must not recurse along the chain.
TEST(Executor, TakesAHundredThousandNodesInARow) {
  const at::Tensor x = random_leaf(1, {2});
  {
    at::Tensor y = x;
    for (int i = 0; i < 100'000; ++i) y = y + 1;
    Executor executor;
    const GradientMap gradients = run_pass(executor, roots_of({y.sum()}));
    EXPECT_TRUE(at::equal(gradients.gradient(x), at::ones({2})));
  }
}

// The first consumer, by order of the program, gives a leaf its place; capture order does not.
TEST(Executor, ListsLeavesByFirstUse) {
  const at::Tensor a = random_leaf(1, {4});
  const at::Tensor b = random_leaf(2, {4});
  const at::Tensor c = random_leaf(3, {4});
  const at::Tensor y = b * a;
  const at::Tensor z = (y + c).sum() + a.sum();
  Executor executor;
  executor.plan(roots_of({z}), {}, {}).or_throw();
  const std::vector<at::Tensor> leaves = executor.leaves();
  ASSERT_EQ(leaves.size(), 3u);
  EXPECT_TRUE(leaves[0].is_same(b));
  EXPECT_TRUE(leaves[1].is_same(a));
  EXPECT_TRUE(leaves[2].is_same(c));
}

TEST(Executor, RefusesRootsThatLeadNowhere) {
  Executor executor;
  EXPECT_EQ(executor.plan(roots_of({at::ones({})}), {}, {}).code(), Code::bad_argument);
  EXPECT_EQ(executor.plan(roots_of({random_leaf(1, {4})}), {}, {}).code(), Code::bad_argument);
  const Root wrong_shape{random_leaf(1, {4}), at::ones({5})};
  EXPECT_EQ(executor.plan({&wrong_shape, 1}, {}, {}).code(), Code::bad_argument);
}

// Slices change when nodes run, not what they compute or how many there are.
TEST(Executor, StopsAfterTheNodesAskedFor) {
  const at::Tensor x = random_leaf(1, {4});
  Executor executor;
  executor.plan(roots_of({x.sin().sin().sin().sum()}), {}, {}).or_throw();
  int slices = 1;
  while (executor.run_slice(1).or_throw()) ++slices;
  EXPECT_EQ(slices, 5);
  EXPECT_EQ(executor.nodes(), 5u);
  EXPECT_TRUE(executor.done());
}

}  // namespace
}  // namespace rehearse::autograd
