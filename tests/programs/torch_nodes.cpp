#include "tests/programs/torch_nodes.hpp"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <utility>

namespace rehearse::programs {
namespace {

class ActNode final : public torch::autograd::Node {
 public:
  ActNode(std::string name, std::function<void()> act)
      : name_(std::move(name)), act_(std::move(act)) {}
  std::string name() const override { return name_; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    act_();
    return std::move(gradients);
  }

 private:
  std::string name_;
  std::function<void()> act_;
};

}  // namespace

at::Tensor on_backward(const at::Tensor& x, std::string name, std::function<void()> act) {
  const std::shared_ptr<ActNode> node(new ActNode(std::move(name), std::move(act)),
                                      torch::autograd::deleteNode);
  node->add_next_edge(torch::autograd::impl::gradient_edge(x));
  at::Tensor same = x.detach();
  torch::autograd::create_gradient_edge(same, node);
  return same;
}

std::vector<at::Tensor> plain_gradients(const at::Tensor& root,
                                        const std::vector<at::Tensor>& leaves) {
  return torch::autograd::grad({root}, leaves, {}, /*retain_graph=*/true, /*create_graph=*/false,
                               /*allow_unused=*/true);
}

}  // namespace rehearse::programs
