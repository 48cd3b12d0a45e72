#include "runtime/autograd/autograd.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/base/error.hpp"

namespace rehearse::autograd {

void refuse_second_context(const rpc::Place& here, const WorkerSpec& self) {
  if (here.context == 0) return;
  throw Error({Code::bad_argument,
               fmt::format("this task has a context already: {:#x}; close it first", here.context),
               self.name, here.context});
}

ContextId context_of(const WorkerSpec& self, std::uint32_t counter) {
  return make_context(static_cast<WorkerId>(self.rank),
                      static_cast<std::uint16_t>(self.address.generation), counter);
}

void check_roots(const std::vector<at::Tensor>& roots, const BackwardOptions& options) {
  const auto refuse = [](const std::string& why) {
    throw Error(Code::bad_argument, "backward: " + why);
  };
  if (roots.empty()) refuse("no roots were given; expected at least one tensor");
  const auto& outputs = options.grad_outputs;
  if (!outputs.empty() && outputs.size() != roots.size()) {
    refuse(fmt::format("{} grad_outputs for {} roots; expected one each", outputs.size(),
                       roots.size()));
  }
  for (std::size_t i = 0; i < roots.size(); ++i) {
    const at::Tensor& root = roots[i];
    if (!root.defined()) refuse(fmt::format("root {} is undefined", i));
    if (!root.requires_grad()) {
      refuse(fmt::format("root {} does not require grad: nothing recorded leads to it", i));
    }
    if (outputs.empty() && root.numel() != 1) {
      refuse(fmt::format("root {} has shape [{}]; only a scalar root needs no grad_outputs", i,
                         fmt::join(root.sizes(), ", ")));
    }
    if (!outputs.empty() && outputs[i].defined() && outputs[i].sizes() != root.sizes()) {
      refuse(fmt::format("grad_outputs[{}] has shape [{}], its root [{}]", i,
                         fmt::join(outputs[i].sizes(), ", "), fmt::join(root.sizes(), ", ")));
    }
  }
}

}  // namespace rehearse::autograd
