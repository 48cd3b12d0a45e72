#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "runtime/autograd/executor.hpp"

namespace rehearse::autograd::testing {

/// A random program on 4x4 tensors: leaves, and what it returned.
struct RandomGraph {
  std::vector<at::Tensor> leaves;
  std::vector<at::Tensor> roots;
};

/// Nodes with one to three inputs, several outputs, wide fan-in and fan-out, shared leaves, views
/// written in place (so that torch regenerates grad_fns), several roots that share nodes.
RandomGraph random_graph(std::uint64_t seed, at::ScalarType dtype, int operations = 30);

/// Leaves with random values and history to come.
at::Tensor random_leaf(std::uint64_t seed, at::IntArrayRef sizes,
                       at::ScalarType dtype = at::kFloat);

std::vector<Root> roots_of(const std::vector<at::Tensor>& tensors);

/// Runs a whole local pass, and commits it.
GradientMap run_pass(Executor& executor, const std::vector<Root>& roots,
                     ExecutorOptions options = {});

/// What torch's engine adds to an empty `.grad` of each leaf; `.grad` is empty again afterwards.
/// Keeps the graph.
std::vector<at::Tensor> torch_gradients(const std::vector<at::Tensor>& roots,
                                        const std::vector<at::Tensor>& leaves,
                                        bool create_graph = false);

/// Equal bits, strides and layout, or both undefined.
bool same(const at::Tensor& left, const at::Tensor& right);

}  // namespace rehearse::autograd::testing
