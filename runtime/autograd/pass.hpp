#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/autograd/ids.hpp"
#include "runtime/autograd/protocol.hpp"
#include "runtime/autograd/turn.hpp"
#include "runtime/autograd/verdicts.hpp"
#include "runtime/base/result.hpp"
#include "runtime/base/time.hpp"

namespace rehearse::autograd {

/// Gradients on their way, whatever the driver keeps them in. Dropping it frees them.
using GradHandle = std::shared_ptr<void>;

/// What a core wants done, in this order. Control lane.
struct Send {
  WorkerId to = 0;
  PassMessage message;
};
/// Plan and run exactly these own sends; say `executed` when nothing is left to run and the merged
/// values are computed, `threw` if a node throws.
struct Plan {
  PassId pass;
  std::vector<PairId> sends;
  PassOptions options;
  bool initiator = false;  ///< seed the roots as well
};
/// The gradients of a live send have arrived. After its `Plan`, once per pair.
struct Feed {
  PassId pass;
  PairId pair;
  GradHandle gradients;
};
/// Swap the merged values in and release what was used. Cannot fail.
struct CommitPass {
  PassId pass;
};
/// Forget the staged values: the context is as before the pass.
struct DropPass {
  PassId pass;
};
/// The pass that this worker asked the turn for is over; `backward` returns or throws.
struct Finished {
  PassId pass;
  Status status;
};
/// Find the live sends, then `begin`, or `cancel`.
struct TurnGranted {
  PassId pass;
};
/// The context cannot go on: free this worker's share of it, and answer its users with `failure`.
/// The creator tells the holders it knows with `Close`.
struct CloseContext {
  Failure failure;
};

using Action =
    std::variant<Send, Plan, Feed, CommitPass, DropPass, Finished, TurnGranted, CloseContext>;
using Actions = std::vector<Action>;

struct PassBounds {
  std::size_t report_tree_above = 64;  ///< participants; above it DONE goes along a tree
  std::uint32_t report_arity = 8;
};

/// What was dropped, and why.
struct PassStatistics {
  std::uint64_t duplicates = 0;     ///< a second gradient for one pair
  std::uint64_t unknown_pairs = 0;  ///< a gradient for a pair that is not live
  std::uint64_t late = 0;           ///< about a pass that is over
  std::uint64_t fenced = 0;         ///< from a lost worker, or about a pass of a lost initiator
  std::uint64_t stray = 0;          ///< not to be expected in this state

  PassStatistics& operator+=(const PassStatistics& more) {
    duplicates += more.duplicates;
    unknown_pairs += more.unknown_pairs;
    late += more.late;
    fenced += more.fenced;
    stray += more.stray;
    return *this;
  }
  std::uint64_t total() const { return duplicates + unknown_pairs + late + fenced + stray; }
};

/// All backward passes of one context at one worker: as initiator, as participant, and, at the
/// context's creator, the order of the passes. PROTOCOL: docs/protocol.md.
///
/// Pure: events in, actions out. No waiting, no clock, no torch. An event about a pass that is over
/// does nothing, so a driver need not know what has become of it.
///
/// What it promises, if every peer's messages arrive in order per lane or its loss is reported to
/// all who have heard of it:
/// - every pass asked for is finished exactly once, unless it was cancelled before it began;
/// - all survivors commit a pass, or none does, or the context is closed at all of them;
/// - passes of a context commit in the order of their turns at every worker.
class PassCore {
 public:
  PassCore(ContextId context, WorkerId self, const PassBounds& bounds = {});

  ContextId context() const { return context_; }
  bool creator() const { return self_ == creator_of(context_); }

  // What this worker's program asks for.

  /// A new pass with this worker as initiator. Follow it with `ask_turn`, in the same order.
  PassId new_pass();
  /// `TurnGranted` comes at once where this is the creator and no pass is on its way.
  Actions ask_turn(PassId pass);
  /// Withdraws a pass that was not begun: its deadline has passed, its roots reach a lost worker, a
  /// QUERY failed. No `Finished` comes for it. One that was begun fails with `cancelled`.
  Actions cancel(PassId pass);
  /// `live` has the live sends of every worker, this one's too; `now` and `deadline` are world
  /// times. REQUIRES: the turn was granted.
  Actions begin(PassId pass, const std::map<WorkerId, std::vector<PairId>>& live,
                const PassOptions& options, Time now, Time deadline);
  /// The creator's program is done with the context. Passes under way fail with `context_closed`;
  /// what comes later is refused.
  Actions close();

  // What the executor says.

  Actions executed(PassId pass);
  /// `failure.worker` may be empty for this one. `node`, if not empty, is named in it.
  Actions threw(PassId pass, std::string_view node, Failure failure);

  // What the network says.

  Actions receive(WorkerId from, const PassMessage& message, Time now);
  Actions receive_gradients(WorkerId from, PassId pass, PairId pair, GradHandle gradients);
  /// `why` is for people.
  Actions peer_lost(WorkerId peer, const std::string& why = {});

  /// Passes whose deadline is not after `now` fail.
  Actions expire(Time now);
  /// When `expire` has something to do; `kNever` if it has not.
  Time next_deadline() const;

  /// This worker has reported a pass and does not know its verdict: its gradients may be about to
  /// change. `get_gradients` waits (for at most `Limits::verdict`) until this is false.
  bool undecided() const;
  bool closed() const { return closed_.has_value(); }
  /// Zero of both when nothing is under way.
  std::size_t live_passes() const { return passes_.size(); }
  std::size_t stashed() const;
  const PassStatistics& statistics() const { return statistics_; }

  /// For a context of which nothing is here: what to answer to a message about it, if anything.
  static std::optional<Send> answer_for_closed(WorkerId from, const PassMessage& message);

 private:
  enum class Stage {
    held,      ///< participant: an older pass is still open here
    running,   ///< own part not done
    executed,  ///< own part done; at a participant, workers below it in the report tree are not
    reported,  ///< participant: it may commit, and may not abort by itself
    in_doubt,  ///< participant: reported, and the initiator is lost
  };
  struct Pass {
    PassId id;
    Stage stage = Stage::held;
    std::uint64_t order = 0;  ///< of arrival
    std::vector<WorkerId> participants;
    std::vector<PairId> sends;
    PassOptions options;
    Time deadline = kNever;
    std::uint32_t report_arity = 0;
    std::set<PairId> fed;
    std::set<WorkerId> waiting_for;  ///< whose report is to come: here, or below here in the tree
    std::vector<WorkerId> done;      ///< who has reported to here, in the order of arrival
    std::set<WorkerId> asked;        ///< in doubt: whose answer is to come
  };
  struct Stashed {
    PairId pair;
    GradHandle gradients;
  };
  /// What came before its START.
  struct Early {
    std::vector<Stashed> gradients;
    std::vector<WorkerId> done;
  };
  struct Question {
    WorkerId from = 0;
    VerdictAsk ask;
  };

  // pass.cpp: the way of one pass
  void on(WorkerId from, const Start& start, Time now, Actions& out);
  void on(WorkerId from, const Done& done, Actions& out);
  void on(WorkerId from, const Fail& fail, Actions& out);
  void on(WorkerId from, const Commit& commit, Actions& out);
  void on(WorkerId from, const Abort& abort, Actions& out);
  void send(WorkerId to, PassMessage message, Actions& out) const;
  bool mine(const PassId& pass) const { return pass.initiator == self_; }
  Pass* find(const PassId& pass);
  void send_starts(const Pass& pass, const std::map<WorkerId, std::vector<PairId>>& live, Time now,
                   Actions& out) const;
  Pass participate(const Start& start, Time now);
  void run(Pass& pass, Actions& out);
  void feed(Pass& pass, Stashed gradients, Actions& out);
  void add_reports(Pass& pass, const std::vector<WorkerId>& workers);
  void report_if_done(Pass& pass, Actions& out);
  void start_next(Actions& out);

  // pass_end.cpp: how passes, and the context, end
  void on(WorkerId from, const Close& close, Actions& out);
  void commit(PassId id, Actions& out);
  void fail(PassId id, const Failure& failure, Actions& out);
  void settle(PassId id, Verdict verdict, Actions& out);
  void refuse(const PassId& id, Verdict verdict);
  void tell(const std::vector<WorkerId>& workers, const PassMessage& message, Actions& out) const;
  void lose(PassId id, WorkerId peer, Actions& out);
  void give_up(const Failure& failure, Actions& out);
  void shut(const Failure& failure, Actions& out);
  Failure lost_in_backward(WorkerId peer) const;
  Failure loss_of(WorkerId peer, const std::string& what) const;
  Failure spoilt() const;
  Failure failure_of(Code code, std::string message, std::string worker = {}) const;
  Failure timed_out(const Pass& pass) const;

  // pass_turn.cpp: the order of passes
  void on(WorkerId from, const TurnAsk& ask, Actions& out);
  void on(WorkerId from, const Turn& turn, Actions& out);
  void on(WorkerId from, const TurnEnd& end, Actions& out);
  void end_turn(const PassId& pass, Verdict verdict, Actions& out);
  void grant_next(Actions& out);
  void grant_here(Actions& out);
  void note_previous(const Settled& previous, Actions& out);
  void end_turn_of_lost(Actions& out);

  // pass_doubt.cpp: how a pass of a lost initiator ended
  void on(WorkerId from, const VerdictAsk& ask, Actions& out);
  void on(WorkerId from, const VerdictAnswer& answer, Actions& out);
  void ask_verdict(Pass& pass, Actions& out);
  void close_if_nobody_knows(const Pass& pass, Actions& out);
  void answer_questions(Actions& out);
  std::optional<Verdict> answer_to(const VerdictAsk& ask) const;
  std::vector<WorkerId> lost_of(const Pass& pass) const;

  ContextId context_;
  WorkerId self_;
  PassBounds bounds_;
  std::uint32_t next_counter_ = 0;
  std::uint64_t next_order_ = 0;
  std::optional<Failure> closed_;  ///< why
  std::map<PassId, Pass> passes_;
  std::map<PassId, Early> early_;
  std::map<WorkerId, std::string> lost_;  ///< and why, for people
  VerdictLog verdicts_;
  TurnQueue turns_;              ///< at the creator
  std::set<PassId> asked_;       ///< own passes, not begun
  std::optional<Turn> granted_;  ///< own pass that has the turn; its `TurnGranted` may still wait
  bool announced_ = false;       ///< `TurnGranted` was given for `granted_`
  std::vector<Question> questions_;
  PassStatistics statistics_;
};

}  // namespace rehearse::autograd
