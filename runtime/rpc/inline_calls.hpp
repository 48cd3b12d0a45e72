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
  void leave(int rank) { workers_.erase(rank); }
  /// Waits until that worker has started.
  InlineCalls& at(int rank, World& world);
  /// Null if that worker has ended.
  InlineCalls* find(int rank) const;

  std::map<RefId, std::size_t> references;  ///< how many there are to each value

 private:
  std::map<int, InlineCalls*> workers_;
  std::vector<std::pair<Tasks*, TaskId>> waiting_;
};

/// References of the uncut run: the value is made where it is asked for, and counted in one place.
class InlineReferences final : public References {
 public:
  InlineReferences(InlineJob& job, World& world, Places& places, Calls& calls)
      : References(world, places, calls), job_(job) {}

  RefPtr own(ValuePtr value) override;
  RefPtr mint(int owner) override;
  void settle(const Reference& what, Status answer) override;
  void drop(const Reference& what) override;
  bool confirmed(const Reference& what) const override { return status(what).ok(); }
  Status status(const Reference& what) const override;

  /// Turns references of another worker into own ones.
  void adopt(std::vector<RefPtr>& refs);
  void free(RefId ref) { forget(ref); }

 private:
  RefPtr handle(const Reference& what);

  InlineJob& job_;
  std::map<int, std::uint32_t> minted_;  // by owner
  std::map<RefId, Failure> failed_;
};

/// The uncut run: every call, `async` too, executes its callee at once, in the caller's task, and
/// tensors cross through one identity node in one torch graph. The oracle of the cut run.
class InlineCalls final : public Calls {
 public:
  InlineCalls(InlineJob& job, World& world, Worker& worker, const Functions& functions,
              Crossing& crossing, HandlerState& handlers);

  void issue(int rank, Request request, Time deadline, Complete complete) override;
  InlineReferences& references() override { return *references_; }
  void when_lost(int, OnPeerLost) override {}
  World& world() override { return world_; }
  Places& places() override { return places_; }

 private:
  /// Serves the request on this worker, in the caller's task, at `place`; crosses what it returns.
  Packed serve(InlineCalls& caller, std::uint64_t call, const Place& place, Request& request);
  Packed run(Request& request);

  InlineJob& job_;
  World& world_;
  Places& places_;
  Worker& worker_;
  const Functions& functions_;
  Crossing& crossing_;
  HandlerState& handler_state_;
  std::shared_ptr<InlineReferences> references_;
  std::uint64_t next_call_ = 1;
};

}  // namespace rehearse::rpc
