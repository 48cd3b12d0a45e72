#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "runtime/autograd/autograd.hpp"
#include "runtime/autograd/executor.hpp"
#include "runtime/autograd/pass.hpp"
#include "runtime/autograd/provenance.hpp"
#include "runtime/autograd/segments.hpp"
#include "runtime/world/world.hpp"

namespace rehearse::autograd {

/// What a GRAD message brought, to be fed to its send node.
struct ArrivedGradients {
  WorkerId from = 0;
  std::vector<at::Tensor> tensors;
  Bytes crossing;  ///< with `create_graph`: as of a forward message
};

/// A worker's part of one pass.
struct PassRun {
  Executor executor;
  std::optional<Plan> plan;  ///< until it has been planned
  bool create_graph = false;
  bool retains_graph = false;
  std::shared_ptr<const CallPath> path;  ///< of what the pass records; null: it has no place
  std::vector<std::pair<PairId, ArrivedGradients>> arrived;  ///< to be fed
  std::optional<GradientMap> merged;  ///< the context's gradients with this pass, when done
  bool queued = false;                ///< waits for the executing task
};

/// A task inside `backward`.
struct Caller {
  TaskId task;
  bool granted = false;
  std::optional<Status> finished;
  std::set<WorkerId> asked;                         ///< owners whose ANSWER is to come
  std::optional<Failure> failure;                   ///< why the live sends cannot be found
  std::map<WorkerId, std::vector<PairId>> missing;  ///< what each of them was asked
  std::vector<at::Tensor> roots;
  const BackwardOptions* options = nullptr;
};

/// One worker's share of one context: what it recorded, what it sent, its gradients, its passes.
class Share {
 public:
  Share(ContextId context, WorkerId self, const Limits& limits, Provenance::Rare rare);
  ~Share();

  ContextId id() const { return id_; }

  /// Cuts the graph behind `tensors`, which leave for `to`. Writes the crossing, if there is one.
  void send(WorkerId to, const std::vector<at::Tensor>& tensors, Writer& header);
  /// Reads what `send` wrote. Fails with `corrupt`.
  Status receive(WorkerId from, std::vector<at::Tensor>& tensors, Reader& header);

  /// What `remember` was told for these roots, if it was the last. What lies behind a node never
  /// changes.
  const LiveSet* remembered(const std::vector<at::Tensor>& roots) const;
  /// Keeps the graph behind the roots alive until the context is closed or this is called again.
  void remember(const std::vector<at::Tensor>& roots, LiveSet live);

  /// The recv pairs that the roots reach on this worker.
  std::vector<PairId> reached(const std::vector<at::Tensor>& roots) const;
  /// The send nodes of `pairs`, in that order; unknown ones are left out.
  std::vector<std::shared_ptr<SendNode>> sends(const std::vector<PairId>& pairs) const;

  Provenance& provenance();

  Segments segments;
  GradientMap gradients;
  PassCore core;
  std::map<PassId, PassRun> runs;
  std::optional<Executor> kept;  ///< of the latest pass that retained its graph, for the next
  std::map<PassId, Caller> callers;
  std::vector<TaskId> undecided_waiters;  ///< tasks in `get_gradients`
  std::set<WorkerId> parents, children;   ///< who called here, whom this worker called
  JournalEntry key;                       ///< step, creator, ordinal, owner; passes so far
  bool opened_here = false;
  std::optional<WorkerId> closed_by;  ///< who told that the context is closed
  std::uint32_t watermark = 0;        ///< as in the message that told so

 private:
  struct Graph;

  ContextId id_;
  WorkerId self_;
  std::uint64_t next_pair_ = 0;
  std::unique_ptr<Graph> graph_;
};

}  // namespace rehearse::autograd
