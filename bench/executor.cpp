// Our executor against torch's engine on the same graphs, one thread, in alternation: A B A B.
// Prints the ratio of medians (below 1: we are faster) and the quartiles of the paired ratios, in
// processor time of this thread, which does not see what else the machine does.

#include "runtime/autograd/executor.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <time.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace rehearse::autograd {
namespace {

struct Graph {
  at::Tensor root;
  std::vector<at::Tensor> leaves;
};

at::Tensor leaf(at::IntArrayRef sizes) { return (at::randn(sizes) * 0.05).requires_grad_(true); }

at::Tensor linear(const at::Tensor& x, Graph& graph, std::int64_t from, std::int64_t to) {
  const at::Tensor weight = graph.leaves.emplace_back(leaf({to, from}));
  const at::Tensor bias = graph.leaves.emplace_back(leaf({to}));
  return at::linear(x, weight, bias);
}

Graph perceptron() {
  Graph graph;
  at::Tensor x = at::randn({64, 256});
  for (int i = 0; i < 4; ++i) x = linear(x, graph, 256, 256).relu();
  graph.root = x.pow(2).mean();
  return graph;
}

at::Tensor attention(const at::Tensor& x, Graph& graph) {
  const auto heads = [&](const at::Tensor& from) {
    return linear(from, graph, 256, 256).view({4, 64, 4, 64}).transpose(1, 2);
  };
  const at::Tensor queries = heads(x);
  const at::Tensor keys = heads(x);
  const at::Tensor values = heads(x);
  const at::Tensor weights = (queries.matmul(keys.transpose(-2, -1)) * 0.125).softmax(-1);
  const at::Tensor mixed = weights.matmul(values).transpose(1, 2).reshape({4, 64, 256});
  return linear(mixed, graph, 256, 256);
}

Graph transformer_layer() {
  Graph graph;
  const auto normed = [&](const at::Tensor& x) {
    const at::Tensor weight = graph.leaves.emplace_back(leaf({256}));
    const at::Tensor bias = graph.leaves.emplace_back(leaf({256}));
    return at::layer_norm(x, {256}, weight, bias);
  };
  at::Tensor x = at::randn({4, 64, 256});
  x = normed(x + attention(x, graph));
  x = normed(x + linear(linear(x, graph, 256, 1024).relu(), graph, 1024, 256));
  graph.root = x.pow(2).mean();
  return graph;
}

Graph chain_of_adds() {
  Graph graph;
  graph.leaves = {leaf({8})};
  at::Tensor x = graph.leaves[0];
  for (int i = 0; i < 1000; ++i) x = x + 1;
  graph.root = x.sum();
  return graph;
}

double thread_time_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

double microseconds(const std::function<void()>& work) {
  const double start = thread_time_us();
  work();
  return thread_time_us() - start;
}

double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

// A fresh graph each time; the forward pass is not timed, freeing saved tensors is.
double run_torch(const std::function<Graph()>& make) {
  const Graph graph = make();
  return microseconds([&] { torch::autograd::backward({graph.root}); });
}

double run_ours(const std::function<Graph()>& make, Executor& executor, double* planning) {
  const Graph graph = make();
  const Root root{graph.root, {}};
  return microseconds([&] {
    *planning = microseconds([&] { executor.plan({&root, 1}, {}, {}).or_throw(); });
    while (executor.run_slice(1000).or_throw()) {
    }
    executor.release();
    const GradientMap gradients = std::move(executor.staged());
    executor.drop();
  });
}

void compare(const std::string& name, const std::function<Graph()>& make, int rounds) {
  Executor executor;
  std::vector<double> torch_us, ours_us, planning_us, ratios;
  for (int round = -3; round < rounds; ++round) {
    double planning = 0;
    const double theirs = run_torch(make);
    const double ours = run_ours(make, executor, &planning);
    if (round < 0) continue;  // warms caches and allocators
    torch_us.push_back(theirs);
    ours_us.push_back(ours);
    planning_us.push_back(planning);
    ratios.push_back(ours / theirs);
  }
  const Root root{make().root, {}};
  executor.plan({&root, 1}, {}, {}).or_throw();
  fmt::print(
      "{:<18} {:>5} nodes  torch {:>8.1f} us  ours {:>8.1f} us  ratio {:.3f}  paired quartiles "
      "{:.3f} {:.3f} {:.3f}  planning {:.0f} ns a node\n",
      name, executor.nodes(), quantile(torch_us, 0.5), quantile(ours_us, 0.5),
      quantile(ours_us, 0.5) / quantile(torch_us, 0.5), quantile(ratios, 0.25),
      quantile(ratios, 0.5), quantile(ratios, 0.75),
      1000 * quantile(planning_us, 0.5) / static_cast<double>(executor.nodes()));
}

}  // namespace
}  // namespace rehearse::autograd

int main() {
  at::set_num_threads(1);
  using namespace rehearse::autograd;
  compare("perceptron", perceptron, 300);
  compare("transformer layer", transformer_layer, 80);
  compare("1000 adds", chain_of_adds, 500);
}
