#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/autograd/cut_nodes.hpp"
#include "runtime/autograd/gradients.hpp"
#include "runtime/autograd/segments.hpp"
#include "runtime/base/result.hpp"

namespace rehearse::autograd {

/// Where a pass starts. An undefined `gradient` stands for one, if `tensor` has a single element.
struct Root {
  at::Tensor tensor;
  at::Tensor gradient;
};

/// In which order the contributions to one gradient are added. All but `canonical` exist to show
/// that a test would notice: by arrival the bits depend on messages; by sequence numbers alone they
/// depend on which handler of this worker ran first.
enum class Order { canonical, arrival, sequence_only };

struct ExecutorOptions {
  ContextId context = 0;
  bool retain_graph = false;
  bool create_graph = false;  ///< record what the pass computes; implies retained variables
  /// Keep saved tensors until `release`, so that a failed pass can be run again. Otherwise each
  /// node's go when it has run, as in torch: less memory, and a failure is final.
  bool rerunnable = true;
  bool detect_anomaly = false;  ///< a node that gives NaN is a failure
  /// Of this worker and context. Null: the program never waited or called while it recorded.
  Segments* segments = nullptr;
  /// The path of the pass, as if it were a call: with `create_graph` and `segments`, nodes that it
  /// records are segments (path, place of the node that made them). Null: they are not recorded.
  std::shared_ptr<const CallPath> path;
  /// Capture only the gradients of these leaves, and run only what leads to them or to another
  /// worker. Empty: all leaves.
  std::vector<at::Tensor> inputs;
  Order order = Order::canonical;
};

/// One worker's share of a backward pass over torch's graph. It never waits: feed it, run a slice,
/// take what goes to other workers, until it is done. Leaf gradients go to a staging map; nothing
/// outside this object changes before `release`. Bits equal those of torch's engine on the graph
/// that is not cut, whatever the order of arrival.
///
/// Hooks run as in torch (tensor hooks, retain_grad, pre-hooks, the node, post-hooks) except
/// post-accumulate-grad hooks, because no `.grad` is written. Anything a node throws that is a
/// std::exception becomes a failure; what is none (a cancelled task) passes through. After either,
/// only `drop`, `plan` and destruction are allowed, and the graph can be run again if `rerunnable`.
///
/// An executor may be used for one pass after another; it keeps its memory, and its plan where the
/// same roots, sends and inputs are given again.
class Executor {
 public:
  Executor();
  ~Executor();
  Executor(Executor&&) noexcept;
  Executor& operator=(Executor&&) noexcept;

  /// Prepares a pass from `roots` and the send nodes that the pass reaches; their order must not
  /// depend on arrival. `bad_argument` if a root has no history, its gradient does not fit,
  /// or the graph reaches a tensor that was received in another context.
  Status plan(std::span<const Root> roots, std::span<const std::shared_ptr<SendNode>> sends,
              ExecutorOptions options);

  /// Whether gradients of `pair` are still to come.
  bool expects(PairId pair) const;

  /// Gradients for the tensors of a send node, in any order among the pairs. `corrupt` if they
  /// were not expected, or are not one for each tensor. They may be added to in place: their memory
  /// must be theirs alone, or their storage be held elsewhere too.
  Status feed(PairId pair, std::vector<at::Tensor> gradients);

  /// Runs at most `max_nodes` nodes. True if more are ready. A failure names the node. Torch's
  /// thread-local state is the caller's again on return. REQUIRES: planned, not failed.
  Result<bool> run_slice(std::size_t max_nodes);

  /// Every node has run; the outbox may still hold something.
  bool done() const;

  /// Gradients for other workers since the last time, in the order in which they were computed.
  std::vector<OutgoingGradients> take_outbox();

  /// Leaf gradients of this pass alone. Take them when done.
  GradientMap& staged();

  /// Frees saved variables unless `retain_graph`. REQUIRES: done. Cannot fail.
  void release();

  /// Forgets the pass: buffers, staged gradients, the outbox. Nodes keep their saved variables.
  void drop();

  /// The place of a send node in this pass: what records a graph on its behalf (receiving its
  /// gradients under `create_graph`) is segment (`path`, place). Likewise for outgoing gradients.
  std::uint32_t place(PairId pair) const;

  std::size_t nodes() const;
  /// Leaves that the pass reaches, by canonical order of their first use.
  std::vector<at::Tensor> leaves() const;
  /// Local edges along which data flowed against the sequential order. Not zero: handlers shared
  /// state, the program is `not_sequential`.
  std::uint32_t key_inversions() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rehearse::autograd
