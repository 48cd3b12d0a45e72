#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/autograd/ids.hpp"

namespace torch::autograd {
struct Node;
}

namespace rehearse::autograd {

/// The sender's end of a pair: its edges go to the tensors of the message that require grad. In a
/// backward pass it is a source, fed with the gradients that came from the receiver.
class SendNode;

/// The gradients on their way back over a pair, one for each tensor of the message that requires
/// grad, in the message's order. Any of them may be undefined.
struct OutgoingGradients {
  PairId pair;
  std::vector<at::Tensor> gradients;
  std::uint32_t place = 0;  ///< of the receive node in this pass; see `Executor::place`
};

/// Cuts the graph behind `tensors`, which are about to leave this worker as one message. Null if
/// none of them requires grad or grad mode is off: then the message needs no pair.
std::shared_ptr<SendNode> cut_send(std::span<const at::Tensor> tensors, PairId pair);

/// A receive node's identity.
struct Received {
  ContextId context = 0;
  PairId pair;
};

/// Makes the received tensors whose flag is set outputs of a receive node, in place. `peer` names
/// the sender in errors. `Tensor::backward` that reaches the node throws an `Error` that says to
/// use `dist_autograd::backward`.
/// REQUIRES: the tensors were just received and have no history; as many flags as tensors.
void cut_receive(std::span<at::Tensor> tensors, const std::vector<bool>& requires_grad,
                 Received received, std::string peer);

/// How the uncut run hands tensors over: as an alias, which shares memory and version counter
/// (writing to an argument is then found by torch), or as a copy.
enum class Handover { alias, clone };

/// Of one message of an uncut run.
struct Route {
  WorkerId from = 0;
  WorkerId to = 0;
};

/// What one message does to the tensors in it, in a run where nothing is cut: they come out equal,
/// behind one identity node for the whole message.
std::vector<at::Tensor> cut_identity(std::span<const at::Tensor> tensors,
                                     Handover handover = Handover::alias, Route route = {});

/// The same for `crossed`: the values of `tensors`, without history, as they come out of a message.
void cut_identity(std::span<const at::Tensor> tensors, std::span<at::Tensor> crossed, Route route);

/// The way of its message, if `node` is the identity node of one.
std::optional<Route> route_of(const torch::autograd::Node& node);

PairId pair_of(const SendNode& node);
std::shared_ptr<torch::autograd::Node> as_node(std::shared_ptr<SendNode> node);

/// Which one, if `node` is a receive node.
std::optional<Received> received(const torch::autograd::Node& node);

}  // namespace rehearse::autograd
