#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace rehearse::programs {

/// The values of `x`; a backward pass that comes to its node, `name`, calls `act` there.
at::Tensor on_backward(const at::Tensor& x, std::string name, std::function<void()> act);

/// What plain single-process code gets: torch's own engine. Undefined for leaves that are not
/// reached. Keeps the graph.
std::vector<at::Tensor> plain_gradients(const at::Tensor& root,
                                        const std::vector<at::Tensor>& leaves);

}  // namespace rehearse::programs
