#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function_hook.h>

#include "runtime/autograd/executor.hpp"
#include "runtime/fiber/task.hpp"
#include "tests/autograd/graphs.hpp"

// Hooks, failures, and what is left of the graph after them.
namespace rehearse::autograd {
namespace {

using namespace testing;
using Log = std::vector<std::string>;

struct LoggedPre : torch::autograd::FunctionPreHook {
  LoggedPre(Log& to, std::string as) : log(to), name(std::move(as)) {}
  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& gradients) override {
    log.push_back("pre " + name);
    return gradients;
  }
  Log& log;
  std::string name;
};

struct LoggedPost : torch::autograd::FunctionPostHook {
  LoggedPost(Log& to, std::string as) : log(to), name(std::move(as)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list& inputs) override {
    log.push_back("post " + name + " " + std::to_string(outputs.size()) + " " +
                  std::to_string(inputs.size()));
    return outputs;
  }
  Log& log;
  std::string name;
};

void watch(const at::Tensor& tensor, const std::string& name, Log& log) {
  tensor.register_hook([&log, name](const at::Tensor&) { log.push_back("tensor " + name); });
  const auto node = torch::autograd::impl::gradient_edge(tensor).function;
  node->add_pre_hook(std::make_unique<LoggedPre>(log, name));
  node->add_post_hook(std::make_unique<LoggedPost>(log, name));
}

// Every kind of hook, on leaves and inner nodes: as often and in the order in which torch runs
// them.
TEST(ExecutorHooks, RunAsInTorch) {
  Log log;
  const at::Tensor x = random_leaf(1, {4});
  const at::Tensor w = random_leaf(2, {4});
  const at::Tensor y = x * w;
  const at::Tensor z = y.sin() + y * x;
  const at::Tensor root = z.sum();
  // Kept: an AccumulateGrad node, and hooks on it, live only as long as somebody holds it.
  const auto kept = torch::autograd::impl::grad_accumulator(x);
  watch(x, "x", log);
  watch(y, "y", log);
  watch(z, "z", log);
  watch(root, "root", log);
  torch_gradients({root}, {x, w});
  const Log expected = std::exchange(log, {});
  Executor executor;
  run_pass(executor, roots_of({root}));
  EXPECT_EQ(log, expected);
  EXPECT_EQ(log.size(), 12u);
}

TEST(ExecutorHooks, MayReplaceGradients) {
  const at::Tensor x = random_leaf(1, {4});
  const at::Tensor y = x.sin();
  y.retain_grad();
  x.register_hook([](const at::Tensor& gradient) { return gradient * 3; });
  y.register_hook([](const at::Tensor& gradient) { return gradient + 1; });
  const at::Tensor expected = torch_gradients({y.sum()}, {x})[0];
  const at::Tensor retained = y.grad();
  y.mutable_grad() = at::Tensor();
  Executor executor;
  const GradientMap gradients = run_pass(executor, roots_of({y.sum()}));
  EXPECT_TRUE(same(gradients.gradient(x), expected));
  EXPECT_TRUE(same(y.grad(), retained));
}

struct Failing : torch::autograd::Function<Failing> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            std::shared_ptr<bool> fails) {
    context->saved_data["fails"] = reinterpret_cast<std::int64_t>(fails.get());
    return x * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    if (*reinterpret_cast<bool*>(context->saved_data["fails"].toInt())) {
      throw std::runtime_error("the disk is on fire");
    }
    return {gradients[0] * 2, at::Tensor()};
  }
};

// After a failure the graph has all its saved tensors: the pass runs again to the right bits.
TEST(ExecutorFailure, LeavesTheGraphAsItWas) {
  const auto fails = std::make_shared<bool>(true);
  const at::Tensor x = random_leaf(1, {4});
  const at::Tensor root = Failing::apply(x.sin() * x, fails).exp().sum();
  Executor executor;
  const std::vector<Root> roots = roots_of({root});
  executor.plan(roots, {}, {}).or_throw();
  const Result<bool> ran = executor.run_slice(100);
  ASSERT_EQ(ran.code(), Code::pass_failed);
  EXPECT_NE(ran.failure().message.find("Failing"), std::string::npos) << ran.failure().message;
  EXPECT_NE(ran.failure().message.find("the disk is on fire"), std::string::npos);
  EXPECT_TRUE(at::GradMode::is_enabled());
  executor.drop();

  *fails = false;
  const at::Tensor expected = torch_gradients({root}, {x})[0];
  EXPECT_TRUE(same(run_pass(executor, roots).gradient(x), expected));
}

// A cancelled task unwinds through a node: nobody may take that for an error.
TEST(ExecutorFailure, LetsCancellationThrough) {
  const at::Tensor x = random_leaf(1, {4});
  x.register_hook([](const at::Tensor&) { throw Cancelled(); });
  Executor executor;
  executor.plan(roots_of({x.sum()}), {}, {}).or_throw();
  EXPECT_THROW(static_cast<void>(executor.run_slice(100)), Cancelled);
  EXPECT_TRUE(at::GradMode::is_enabled());
}

struct SavedProduct {
  at::Tensor x = random_leaf(1, {4});
  at::Tensor root = (x.sin() * x).sum();
};

bool runs_again(Executor& executor, const at::Tensor& root) {
  executor.plan(roots_of({root}), {}, {}).or_throw();
  const auto ran = executor.run_slice(100);
  if (ran.ok()) return true;
  EXPECT_NE(ran.failure().message.find("second time"), std::string::npos) << ran.failure().message;
  return false;
}

TEST(ExecutorRelease, HappensAtCommit) {
  const SavedProduct graph;
  Executor executor;
  ASSERT_TRUE(runs_again(executor, graph.root));
  ASSERT_TRUE(runs_again(executor, graph.root)) << "variables went before the commit";
  executor.release();
  EXPECT_FALSE(runs_again(executor, graph.root));
}

TEST(ExecutorRelease, LeavesARetainedGraph) {
  const SavedProduct graph;
  Executor executor;
  ExecutorOptions options;
  options.retain_graph = true;
  run_pass(executor, roots_of({graph.root}), options);
  EXPECT_TRUE(runs_again(executor, graph.root));
}

TEST(ExecutorRelease, ComesNodeByNodeIfNoRerunIsAskedFor) {
  const SavedProduct graph;
  Executor executor;
  ExecutorOptions options;
  options.rerunnable = false;
  executor.plan(roots_of({graph.root}), {}, options).or_throw();
  executor.run_slice(100).or_throw();
  executor.drop();
  EXPECT_FALSE(runs_again(executor, graph.root));
}

// The second run errors as torch's does, and the saved memory is free.
TEST(ExecutorRelease, FreesSavedTensors) {
  at::Tensor saved = random_leaf(1, {4}).detach();
  const at::Tensor x = random_leaf(2, {4});
  const at::Tensor root = (x * saved).sum();
  ASSERT_GT(saved.use_count(), 1u);
  Executor executor;
  run_pass(executor, roots_of({root}));
  EXPECT_EQ(saved.use_count(), 1u);
}

}  // namespace
}  // namespace rehearse::autograd
