#pragma once

#include <torch/csrc/autograd/function.h>

#include <string>
#include <utility>
#include <vector>

#include "runtime/autograd/cut_nodes.hpp"

namespace rehearse::autograd {

/// See cut_nodes.hpp. The executor passes the gradients that arrived as its inputs.
class SendNode final : public torch::autograd::Node {
 public:
  explicit SendNode(PairId pair) : pair_(pair) {}

  PairId pair() const { return pair_; }
  std::string name() const override { return "SendNode"; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return std::move(gradients);
  }

 private:
  PairId pair_;
};

/// The receiver's end of a pair: the grad_fn of received tensors.
class RecvNode final : public torch::autograd::Node {
 public:
  RecvNode(Received received, std::string peer) : received_(received), peer_(std::move(peer)) {}

  const Received& received() const { return received_; }
  std::string name() const override { return "RecvNode from " + peer_; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;

  /// Where gradients go while a pass executes the node; null: no pass of ours executes it.
  void set_outbox(std::vector<OutgoingGradients>* outbox) { outbox_ = outbox; }

 private:
  Received received_;
  std::string peer_;
  std::vector<OutgoingGradients>* outbox_ = nullptr;
};

/// One message of an uncut run: the identity.
class CutNode final : public torch::autograd::Node {
 public:
  explicit CutNode(Route route) : route_(route) {}

  Route route() const { return route_; }
  std::string name() const override { return "CutNode"; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;

 private:
  Route route_;
};

}  // namespace rehearse::autograd
