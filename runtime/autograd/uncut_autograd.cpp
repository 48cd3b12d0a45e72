#include "runtime/autograd/uncut_autograd.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "runtime/autograd/cut_nodes.hpp"
#include "runtime/autograd/journal.hpp"
#include "runtime/rpc/tensors.hpp"

namespace rehearse::autograd {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Edge;
using torch::autograd::Node;

struct Leaf {
  at::Tensor tensor;
  WorkerId owner = 0;
  FirstUse use;
};

// What one pass reaches in the uncut graph.
struct Reached {
  std::vector<Leaf> leaves;
  std::set<WorkerId> participants;  // workers with a live send
};

// The roots are the initiator's; behind the node of a message all is its sender's. An uncut run is
// sequential, so nodes are numbered in canonical order.
class Walk {
 public:
  explicit Walk(WorkerId initiator) : initiator_(initiator) {
    reached_.participants.insert(initiator);
  }

  Reached from(const std::vector<at::Tensor>& roots) {
    for (const auto& root : roots) {
      visit(torch::autograd::impl::gradient_edge(root), initiator_, FirstUse{});
    }
    while (!left_.empty()) {
      auto [node, owner] = left_.back();
      left_.pop_back();
      if (const auto route = route_of(*node)) {
        owner = route->from;
        reached_.participants.insert(owner);
      }
      for (std::uint32_t i = 0; i < node->num_outputs(); ++i) {
        visit(node->next_edge(i), owner, {node->sequence_nr(), i});
      }
    }
    return std::move(reached_);
  }

 private:
  void visit(const Edge& edge, WorkerId owner, FirstUse use) {
    Node* node = edge.function.get();
    if (!node) return;
    if (auto* leaf = dynamic_cast<AccumulateGrad*>(node)) return use_leaf(*leaf, owner, use);
    if (seen_.insert(node).second) left_.emplace_back(node, owner);
  }

  void use_leaf(AccumulateGrad& node, WorkerId owner, FirstUse use) {
    const auto [found, fresh] = index_.try_emplace(&node, reached_.leaves.size());
    if (fresh) {
      reached_.leaves.push_back({node.variable, owner, use});
      return;
    }
    Leaf& leaf = reached_.leaves[found->second];
    if (std::tie(use.sequence, use.input) < std::tie(leaf.use.sequence, leaf.use.input)) {
      leaf.use = use;
    }
  }

  WorkerId initiator_;
  Reached reached_;
  std::unordered_set<Node*> seen_;
  std::vector<std::pair<Node*, WorkerId>> left_;
  std::unordered_map<Node*, std::size_t> index_;
};

torch::autograd::variable_list run_engine(const std::vector<at::Tensor>& roots,
                                          const std::vector<Leaf>& leaves,
                                          const BackwardOptions& options) {
  torch::autograd::edge_list from, to;
  torch::autograd::variable_list gradients;
  for (std::size_t i = 0; i < roots.size(); ++i) {
    from.push_back(torch::autograd::impl::gradient_edge(roots[i]));
    const bool given = i < options.grad_outputs.size() && options.grad_outputs[i].defined();
    gradients.push_back(given ? options.grad_outputs[i] : at::ones_like(roots[i]));
  }
  for (const auto& leaf : leaves) to.push_back(torch::autograd::impl::gradient_edge(leaf.tensor));
  return torch::autograd::Engine::get_default_engine().execute(
      from, gradients, options.retain_graph, options.create_graph, /*accumulate_grad=*/false, to);
}

}  // namespace

UncutJob::Context* UncutJob::find(ContextId context) {
  const auto found = contexts.find(context);
  return found == contexts.end() ? nullptr : &found->second;
}

UncutJob::Context& UncutAutograd::require(ContextId context) {
  if (UncutJob::Context* found = job_.find(context)) return *found;
  throw Error({Code::unknown_context,
               fmt::format("no context with id {:#x} is known here", context), world_.self.name,
               context});
}

ContextId UncutAutograd::open(const ContextPlace& place) {
  if (knows(places_.current().context)) refuse_second_context(places_.current(), world_.self);
  const ContextId context = context_of(world_.self, next_context_++);
  job_.contexts[context].place = place;
  job_.contexts[context].owners[self()];
  return context;
}

void UncutAutograd::close(ContextId context) { job_.contexts.erase(context); }

std::size_t UncutAutograd::live_contexts() const {
  std::size_t live = 0;
  for (const auto& [id, context] : job_.contexts) live += creator_of(id) == self();
  return live;
}

Status UncutAutograd::join(const rpc::Place& place, std::uint16_t) {
  require(place.context).owners[self()];
  return {};
}

// Through the same codec as a message: the layout of a tensor decides which way BLAS takes, and a
// copy keeps what either side writes later from the other. Without a context nothing stays
// connected.
std::vector<at::Tensor> UncutAutograd::in_place(std::uint16_t to,
                                                const std::vector<at::Tensor>& tensors) {
  Bytes header;
  Writer writer(header);
  std::vector<Payload> payloads;
  rpc::pack_tensors(tensors, writer, payloads).or_throw();
  Reader reader(header);
  std::size_t next_payload = 0;
  auto crossed = rpc::unpack_tensors(reader, payloads, next_payload).or_throw();
  if (UncutJob::Context* context = job_.find(places_.current().context)) {
    cut_identity(tensors, crossed, {self(), to});
    if (to != self()) context->owners[self()].called.insert(to);
  }
  return crossed;
}

std::vector<WorkerId> UncutAutograd::called(ContextId id) const {
  const UncutJob::Context* context = job_.find(id);
  if (!context || !context->owners.contains(self())) return {};
  const auto& called = context->owners.at(self()).called;
  return {called.begin(), called.end()};
}

void UncutAutograd::backward(ContextId id, const std::vector<at::Tensor>& roots,
                             const BackwardOptions& options) {
  require(id);
  check_roots(roots, options);
  if (options.create_graph) places_.issue();  // as in a cut run: random numbers go by places
  const Reached reached = Walk(self()).from(roots);
  std::vector<Leaf> leaves = reached.leaves;
  if (!options.inputs.empty()) {
    std::erase_if(leaves, [&](const Leaf& leaf) {
      return leaf.owner == self() &&
             std::none_of(options.inputs.begin(), options.inputs.end(),
                          [&](const auto& input) { return input.is_same(leaf.tensor); });
    });
  }
  auto gradients = run_engine(roots, leaves, options);
  const c10::AutoGradMode recorded(options.create_graph);
  std::map<WorkerId, GradientMap> staged;
  for (const WorkerId owner : reached.participants) staged[owner];
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (gradients[i].defined())
      staged[leaves[i].owner].accumulate(leaves[i].tensor, gradients[i], 1, leaves[i].use);
  }
  for (auto& [owner, map] : staged) commit(id, owner, std::move(map));
}

void UncutAutograd::commit(ContextId id, WorkerId owner, GradientMap staged) {
  UncutJob::Context& context = require(id);
  UncutJob::Owner& share = context.owners[owner];
  share.gradients = share.gradients.merged(std::move(staged), nullptr);
  const JournalEntry key{.step = context.place.step,
                         .creator = creator_of(id),
                         .ordinal = context.place.ordinal,
                         .pass = share.passes++,
                         .owner = owner};
  write_journal(world_, key, share.gradients.in_order(nullptr));
}

std::vector<GradientMap::Entry> UncutAutograd::gradients(ContextId id) {
  UncutJob::Context& context = require(id);
  return context.owners[self()].gradients.in_order(nullptr);
}

}  // namespace rehearse::autograd
