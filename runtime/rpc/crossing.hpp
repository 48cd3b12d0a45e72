#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/codec.hpp"
#include "runtime/base/result.hpp"
#include "runtime/rpc/place.hpp"

namespace rehearse::rpc {

/// What the layer above does with tensors that cross workers: RPC knows no autograd. It also
/// observes which place runs, since what is recorded then belongs to it.
class Crossing : public PlaceObserver {
 public:
  /// A request of `from` came in this context: take part in it. Fails with `context_closed`.
  virtual Status join(const Place& place, std::uint16_t from) = 0;

  /// `tensors` leave this worker for `to`, at the running task's place. Writes what the receiver's
  /// `enter` reads; says in `requires_grad` nothing that the tensors do not say themselves.
  virtual Status leave(std::uint16_t to, const std::vector<at::Tensor>& tensors,
                       Writer& header) = 0;

  /// `tensors` (detached) have come from `from` in `context`. Fails with `corrupt`, or with
  /// `context_closed` if they would need the closed context.
  virtual Status enter(ContextId context, std::uint16_t from, std::vector<at::Tensor>& tensors,
                       Reader& header) = 0;

  /// The uncut run: `tensors` cross from this worker to `to` in one torch graph.
  virtual std::vector<at::Tensor> in_place(std::uint16_t to,
                                           const std::vector<at::Tensor>& tensors) = 0;
};

}  // namespace rehearse::rpc
