#pragma once

#include <map>
#include <vector>

#include "runtime/rpc/agent.hpp"

namespace rehearse::rpc {

class InlineCalls;

/// The workers of one uncut run.
class InlineJob {
 public:
  void enter(int rank, InlineCalls& calls);
  /// Waits until that worker has started.
  InlineCalls& at(int rank, World& world);

 private:
  std::map<int, InlineCalls*> workers_;
  std::vector<std::pair<Tasks*, TaskId>> waiting_;
};

/// The uncut run: every call, `async` too, executes its callee at once, in the caller's task, and
/// tensors cross through one identity node in one torch graph. The oracle of the cut run.
class InlineCalls final : public Calls {
 public:
  InlineCalls(InlineJob& job, World& world, Worker& worker, const Functions& functions,
              Crossing& crossing, HandlerState& handlers);

  CallNumber issue(int rank, std::string_view function, std::string_view signature,
                   Packed arguments, Time deadline, Complete complete) override;
  void expire(CallNumber) override {}
  World& world() override { return world_; }
  Places& places() override { return places_; }

 private:
  /// Runs the function on this worker, in the caller's task, at `place`; crosses what it returns.
  Packed serve(const InlineCalls& caller, CallNumber call, const Place& place,
               std::string_view function, std::string_view signature, Packed arguments);

  InlineJob& job_;
  World& world_;
  Places& places_;
  Worker& worker_;
  const Functions& functions_;
  Crossing& crossing_;
  HandlerState& handler_state_;
  CallNumber next_call_ = 1;
};

}  // namespace rehearse::rpc
