#include "runtime/autograd/cut_nodes.hpp"

#include <typeinfo>

#include "runtime/autograd/cut_node_types.hpp"
#include "runtime/base/check.hpp"
#include "runtime/base/error.hpp"

namespace rehearse::autograd {
namespace {

using torch::autograd::variable_list;

bool needs_gradient(const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); }

// Torch's deleter, not make_shared: it takes long chains apart without recursion.
template <class T, class... Arguments>
std::shared_ptr<T> make_node(Arguments&&... arguments) {
  return {new T(std::forward<Arguments>(arguments)...), torch::autograd::deleteNode};
}

// Null if the message needs no node.
template <class T, class... Arguments>
std::shared_ptr<T> node_behind(std::span<const at::Tensor> tensors, Arguments&&... arguments) {
  if (!at::GradMode::is_enabled()) return nullptr;
  std::shared_ptr<T> node;
  for (const at::Tensor& tensor : tensors) {
    if (!needs_gradient(tensor)) continue;
    if (!node) node = make_node<T>(std::forward<Arguments>(arguments)...);
    node->add_next_edge(torch::autograd::impl::gradient_edge(tensor));
  }
  return node;
}

}  // namespace

std::shared_ptr<SendNode> cut_send(std::span<const at::Tensor> tensors, PairId pair) {
  return node_behind<SendNode>(tensors, pair);
}

void cut_receive(std::span<at::Tensor> tensors, const std::vector<bool>& requires_grad,
                 Received received, std::string peer) {
  REHEARSE_CHECK(tensors.size() == requires_grad.size(), "one flag a tensor");
  const auto node = make_node<RecvNode>(received, std::move(peer));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (requires_grad[i]) torch::autograd::create_gradient_edge(tensors[i], node);
  }
}

void cut_identity(std::span<const at::Tensor> tensors, std::span<at::Tensor> crossed, Route route) {
  const auto node = node_behind<CutNode>(tensors, route);
  if (!node) return;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (needs_gradient(tensors[i])) torch::autograd::create_gradient_edge(crossed[i], node);
  }
}

std::vector<at::Tensor> cut_identity(std::span<const at::Tensor> tensors, Handover handover,
                                     Route route) {
  const auto node = node_behind<CutNode>(tensors, route);
  std::vector<at::Tensor> crossed;
  crossed.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    at::Tensor& copy = crossed.emplace_back(tensor.defined() ? tensor.detach() : tensor);
    if (tensor.defined() && handover == Handover::clone) copy = copy.clone();
    if (node && needs_gradient(tensor)) torch::autograd::create_gradient_edge(copy, node);
  }
  return crossed;
}

std::optional<Route> route_of(const torch::autograd::Node& node) {
  if (typeid(node) != typeid(CutNode)) return std::nullopt;
  return static_cast<const CutNode&>(node).route();
}

PairId pair_of(const SendNode& node) { return node.pair(); }

std::shared_ptr<torch::autograd::Node> as_node(std::shared_ptr<SendNode> node) { return node; }

std::optional<Received> received(const torch::autograd::Node& node) {
  if (typeid(node) != typeid(RecvNode)) return std::nullopt;
  return static_cast<const RecvNode&>(node).received();
}

variable_list RecvNode::apply(variable_list&& gradients) {
  if (!outbox_) {
    throw Error(Code::bad_argument,
                "a backward pass of torch's reached a tensor that came from " + peer_ +
                    "; gradients cross workers only in dist_autograd::backward");
  }
  outbox_->push_back({received_.pair, std::move(gradients), 0});
  return {};
}

variable_list CutNode::apply(variable_list&& gradients) {
  // A pass that records its graph sends a message here, so the uncut run needs a node again.
  return at::GradMode::is_enabled()
             ? cut_identity(gradients, Handover::alias, {route_.to, route_.from})
             : std::move(gradients);
}

}  // namespace rehearse::autograd
