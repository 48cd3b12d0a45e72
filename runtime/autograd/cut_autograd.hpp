#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/autograd/autograd.hpp"
#include "runtime/autograd/closed_contexts.hpp"
#include "runtime/autograd/share.hpp"
#include "runtime/rpc/agent.hpp"
#include "runtime/world/world.hpp"

namespace rehearse::autograd {

/// Distributed autograd over messages. Decisions are those of `PassCore` and `Provenance`; this
/// brings them messages, torch's graph and time. Passes run in slices in one background task, so
/// messages are looked at in between.
class CutAutograd final : public Autograd {
 public:
  CutAutograd(World& world, rpc::Places& places) : world_(world), places_(places) {}
  ~CutAutograd() override;

  /// Takes the messages of autograd from `agent`. Once, before `agent.serve()`.
  void attach(rpc::Agent& agent);

  ContextId open(const ContextPlace& place) override;
  void close(ContextId context) override;
  void backward(ContextId context, const std::vector<at::Tensor>& roots,
                const BackwardOptions& options) override;
  std::vector<GradientMap::Entry> gradients(ContextId context) override;
  bool knows(ContextId context) const override { return shares_.contains(context); }
  std::size_t live_contexts() const override { return shares_.size(); }
  std::size_t live_passes() const override;
  std::vector<WorkerId> called(ContextId context) const override;
  /// What the passes of contexts that are over have dropped.
  const PassStatistics& dropped() const { return dropped_; }

  Status join(const rpc::Place& place, std::uint16_t from) override;
  Status leave(std::uint16_t to, const std::vector<at::Tensor>& tensors, Writer& header) override;
  Status enter(ContextId context, std::uint16_t from, std::vector<at::Tensor>& tensors,
               Reader& header) override;
  std::vector<at::Tensor> in_place(std::uint16_t to,
                                   const std::vector<at::Tensor>& tensors) override;
  void entered(const rpc::Place& place) override;
  void left(const rpc::Place& place) override;

 private:
  using Work = std::pair<ContextId, PassId>;
  /// A context that this worker has freed, and that others may not have.
  struct Closing {
    std::optional<WorkerId> told_by;
    bool opened_here = false;
    std::set<WorkerId> waiting_for;
  };

  // contexts.cpp
  Share* find(ContextId context);
  Share& require(ContextId context);
  Share& create(ContextId context, const ContextPlace& place);
  Failure not_here(ContextId context) const;
  void free(ContextId context, const Failure& why);
  void wait_for_a_place();
  std::uint32_t lowest_open() const;
  void end_closing_if_told(ContextId context);
  void tell_freed(WorkerId to, ContextId context);
  void tell_all_freed();
  void forget_closing(WorkerId lost);
  void on_close(const Address& from, const Message& message);
  void on_freed(WorkerId by, const std::vector<ContextId>& contexts);
  void on_open_ask(const Address& from, const Message& message);
  void on_open_answer(const Address& from, const Message& message);

  // cut_autograd.cpp
  void on_lost(WorkerId worker, const std::string& why);
  void enter_step(std::int64_t step);
  template <class M>
  void post(WorkerId to, const M& message) {
    Message wire{M::kKind, {}, {}};
    encode(message, wire.header);
    agent_->post(to, Lane::control, std::move(wire));
  }

  void post(const Send& send);

  // backward.cpp: the initiator's side
  void wait_for_turn(Share& share, PassId pass, Time deadline);
  LiveSet find_live(ContextId context, PassId pass, const std::vector<at::Tensor>& roots,
                    Time deadline);
  void ask_owners(Share& share, PassId pass, const LiveSet& live);
  void wait_until_finished(ContextId context, PassId pass);
  Caller& caller(ContextId context, PassId pass);
  PassOptions options_of(const BackwardOptions& options);
  void on_query(const Address& from, const Message& message);
  void on_answer(const Address& from, const Message& message);

  // passes.cpp: every participant's side
  void perform(Share& share, Actions actions);
  void perform(Share& share, const Send& send, Actions& more);
  void perform(Share& share, const Plan& plan, Actions& more);
  void perform(Share& share, const Feed& feed, Actions& more);
  void perform(Share& share, const CommitPass& commit, Actions& more);
  void perform(Share& share, const DropPass& drop, Actions& more);
  void perform(Share& share, const Finished& finished, Actions& more);
  void perform(Share& share, const TurnGranted& granted, Actions& more);
  void perform(Share& share, const CloseContext& close, Actions& more);
  void on_pass_message(const Address& from, const Message& message);
  void on_grad(const Address& from, Message message);
  void queue(Share& share, PassId pass);
  void execute_all();
  void wait_for_work();
  void watch(Time deadline);
  void note_deadline(const Share& share);
  void expire_passes();
  void execute(Share& share, PassId pass);
  Status plan(Share& share, PassRun& run);
  Status feed(Share& share, PassRun& run);
  Status send_gradients(Share& share, PassId pass, PassRun& run);
  void finish(Share& share, PassId pass, PassRun& run);
  void wake_undecided(Share& share);

  World& world_;
  rpc::Places& places_;
  rpc::Agent* agent_ = nullptr;
  std::map<ContextId, std::unique_ptr<Share>> shares_;
  ClosedContexts closed_;
  /// Why contexts could not go on, for who still asks; the latest last.
  std::deque<std::pair<ContextId, Failure>> broken_;
  std::int64_t step_ = -1;  ///< the latest that this worker has heard of
  std::uint32_t next_context_ = 1;
  int opened_ = 0;  ///< contexts opened here and not yet freed by all that took part
  std::vector<TaskId> waiting_to_open_;
  std::map<ContextId, Closing> closing_;
  std::map<WorkerId, std::set<ContextId>> to_tell_;  ///< freed, and not yet said
  Time tell_at_ = kNever;
  PassStatistics dropped_;
  std::deque<Work> work_;
  std::set<ContextId> with_deadlines_;  ///< contexts with a pass that has one
  TaskId executing_task_;
  Time executing_task_until_ = kNever;
};

}  // namespace rehearse::autograd
