#pragma once

#include <cstdint>
#include <vector>

#include "runtime/rpc/function.hpp"
#include "runtime/training/step_wire.hpp"

namespace rehearse::training {

/// The calls by which the workers of a step talk. Every program has them.
struct StepFunctions {
  // To an owner.
  Function<Created(Algorithm, std::vector<RemoteRef<at::Tensor>>)> create{"optimizer.create"};
  Function<std::vector<double>(std::uint64_t, ContextId)> squared_norms{"optimizer.squared_norms"};
  Function<PrepareReply(StepOrder)> prepare{"optimizer.prepare"};
  Function<void(StepId, StepVerdict)> settle{"optimizer.settle"};
  /// From another owner: the ranks are those that are lost.
  Function<StepVerdict(StepId, std::vector<WorkerId>)> verdict{"optimizer.verdict"};
  // To a trainer.
  Function<void(StepId)> give_up{"optimizer.give_up"};
};

/// Adds them to a program's.
void add_step_functions(rpc::Functions& functions);

}  // namespace rehearse::training
