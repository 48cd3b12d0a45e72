#include "tests/programs/torch_nodes.hpp"

#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

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

using torch::autograd::variable_list;
using Log = std::function<void(std::string)>;

struct Cube : torch::autograd::Function<Cube> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x * x * x;
  }
  static variable_list backward(torch::autograd::AutogradContext* context,
                                const variable_list& gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    return {gradients[0] * x * x * 3};
  }
};

class LogPre final : public torch::autograd::FunctionPreHook {
 public:
  explicit LogPre(std::function<void()> log) : log_(std::move(log)) {}
  variable_list operator()(const variable_list& gradients) override {
    log_();
    return gradients;
  }

 private:
  std::function<void()> log_;
};

class LogPost final : public torch::autograd::FunctionPostHook {
 public:
  explicit LogPost(std::function<void()> log) : log_(std::move(log)) {}
  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    log_();
    return outputs;
  }

 private:
  std::function<void()> log_;
};

}  // namespace

at::Tensor cube(const at::Tensor& x) { return Cube::apply(x); }

std::string node_name(const at::Tensor& x) { return x.grad_fn() ? x.grad_fn()->name() : "leaf"; }

std::shared_ptr<void> log_hooks(const at::Tensor& x, const std::string& name, const Log& log) {
  x.register_hook([=](const at::Tensor&) { log(name + " tensor"); });
  const auto node = x.grad_fn() ? x.grad_fn() : torch::autograd::impl::grad_accumulator(x);
  node->add_pre_hook(std::make_unique<LogPre>([=] { log(name + " pre"); }));
  node->add_post_hook(std::make_unique<LogPost>([=] { log(name + " post"); }));
  return node;
}

void plain_backward(const at::Tensor& root) { torch::autograd::backward({root}, {}); }

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
