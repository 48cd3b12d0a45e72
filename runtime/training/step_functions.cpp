#include "runtime/training/step_functions.hpp"

#include <utility>

#include "runtime/rpc/add_function.hpp"
#include "runtime/training/owner.hpp"
#include "runtime/training/trainer.hpp"

namespace rehearse::training {

void add_step_functions(rpc::Functions& functions) {
  const StepFunctions names;
  rpc::add_function(
      functions, names.create.name(),
      [](Worker& worker, Algorithm algorithm, std::vector<RemoteRef<at::Tensor>> parameters) {
        return Owner::of(worker).create(algorithm, parameters);
      });
  rpc::add_function(functions, names.squared_norms.name(),
                    [](Worker& worker, std::uint64_t optimizer, ContextId context) {
                      return Owner::of(worker).squared_norms(optimizer, context);
                    });
  rpc::add_function(functions, names.prepare.name(), [](Worker& worker, StepOrder order) {
    return Owner::of(worker).prepare(order);
  });
  rpc::add_function(functions, names.settle.name(),
                    [](Worker& worker, StepId step, StepVerdict verdict) {
                      Owner::of(worker).settle(step, verdict);
                    });
  rpc::add_function(functions, names.verdict.name(),
                    [](Worker& worker, StepId step, std::vector<WorkerId> lost) {
                      return Owner::of(worker).verdict(step, lost);
                    });
  rpc::add_function(functions, names.give_up.name(),
                    [](Worker& worker, StepId step) { Trainer::of(worker).give_up(step); });
}

}  // namespace rehearse::training
