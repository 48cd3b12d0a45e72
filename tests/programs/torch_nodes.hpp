#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace rehearse::programs {

/// The values of `x`; a backward pass that comes to its node, `name`, calls `act` there.
at::Tensor on_backward(const at::Tensor& x, std::string name, std::function<void()> act);

/// What plain single-process code gets: torch's own engine. Undefined for leaves that are not
/// reached. Keeps the graph.
std::vector<at::Tensor> plain_gradients(const at::Tensor& root,
                                        const std::vector<at::Tensor>& leaves);

/// x cubed, by a `torch::autograd::Function` with a saved tensor and a backward of its own.
at::Tensor cube(const at::Tensor& x);

/// Of the node behind `x`; "leaf" if there is none.
std::string node_name(const at::Tensor& x);

/// The tensor's hook, and pre- and post-hook of the node behind it, or of its accumulator, tell
/// `log` when they run: "NAME tensor", "NAME pre", "NAME post". What is returned keeps them.
std::shared_ptr<void> log_hooks(const at::Tensor& x, const std::string& name,
                                const std::function<void(std::string)>& log);

/// Torch's own backward, to `.grad`.
void plain_backward(const at::Tensor& root);

}  // namespace rehearse::programs
