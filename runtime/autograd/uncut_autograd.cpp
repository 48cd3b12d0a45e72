#include "runtime/autograd/uncut_autograd.hpp"

#include <ATen/SequenceNumber.h>
#include <ATen/ops/ones_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <unordered_set>

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
  std::uint32_t rank = 0;  // of the segment of its first use so far
};

// Where a node was made: which worker's code, and the place of its segment.
struct Origin {
  WorkerId owner = 0;
  std::uint32_t rank = 0;
};

// What one pass reaches in the uncut graph.
struct Reached {
  std::vector<Leaf> leaves;
  std::map<WorkerId, bool> participants;  // workers with a live send
};

class Walk {
 public:
  Walk(const UncutJob::Context& context, WorkerId initiator)
      : context_(context), initiator_(initiator) {}

  Reached from(const std::vector<at::Tensor>& roots) {
    for (const auto& root : roots) {
      visit(torch::autograd::impl::gradient_edge(root), {initiator_, 0}, FirstUse{});
    }
    while (!left_.empty()) {
      Node* node = left_.back();
      left_.pop_back();
      const Origin origin = origin_of(node->sequence_nr());
      if (is_cut(*node)) reached_.participants[origin.owner] = true;
      for (std::uint32_t i = 0; i < node->num_outputs(); ++i) {
        visit(node->next_edge(i), origin, {node->sequence_nr(), i});
      }
    }
    reached_.participants[initiator_] = true;
    return std::move(reached_);
  }

 private:
  Origin origin_of(std::uint64_t sequence) const {
    for (const auto& [owner, share] : context_.owners) {
      if (const std::uint32_t rank = share.segments.rank(sequence)) return {owner, rank};
    }
    return {initiator_, 0};  // made before the context was opened
  }

  void visit(const Edge& edge, Origin from, FirstUse use) {
    Node* node = edge.function.get();
    if (!node) return;
    if (auto* leaf = dynamic_cast<AccumulateGrad*>(node)) return use_leaf(*leaf, from, use);
    if (seen_.insert(node).second) left_.push_back(node);
  }

  void use_leaf(AccumulateGrad& node, Origin from, FirstUse use) {
    const auto [found, fresh] = index_.try_emplace(&node, reached_.leaves.size());
    if (fresh) {
      reached_.leaves.push_back({node.variable, from.owner, use, from.rank});
      return;
    }
    Leaf& leaf = reached_.leaves[found->second];
    const auto key = [](std::uint32_t rank, FirstUse at) {
      return std::tuple(rank, at.sequence, at.input);
    };
    if (key(from.rank, use) < key(leaf.rank, leaf.use))
      leaf = {node.variable, from.owner, use, from.rank};
  }

  const UncutJob::Context& context_;
  WorkerId initiator_;
  Reached reached_;
  std::unordered_set<Node*> seen_;
  std::vector<Node*> left_;
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
  if (const ContextId current = places_.current().context; current != 0) {
    throw Error({Code::bad_argument,
                 fmt::format("this task has a context already: {:#x}; close it first", current),
                 world_.self.name, current});
  }
  const ContextId context = make_context(
      self(), static_cast<std::uint16_t>(world_.self.address.generation), next_context_++);
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
std::vector<at::Tensor> UncutAutograd::in_place(std::uint16_t,
                                                const std::vector<at::Tensor>& tensors) {
  Bytes header;
  Writer writer(header);
  std::vector<Payload> payloads;
  rpc::pack_tensors(tensors, writer, payloads).or_throw();
  Reader reader(header);
  std::size_t next_payload = 0;
  auto crossed = rpc::unpack_tensors(reader, payloads, next_payload).or_throw();
  if (places_.current().context != 0) cut_identity(tensors, crossed);
  return crossed;
}

void UncutAutograd::entered(const rpc::Place& place) {
  if (UncutJob::Context* context = job_.find(place.context)) {
    context->owners[self()].segments.open(at::sequence_number::peek(), place.path, place.issued);
  }
}

void UncutAutograd::left(const rpc::Place& place) {
  if (UncutJob::Context* context = job_.find(place.context)) {
    context->owners[self()].segments.close(at::sequence_number::peek());
  }
}

void UncutAutograd::backward(ContextId id, const std::vector<at::Tensor>& roots,
                             const BackwardOptions& options) {
  UncutJob::Context& context = require(id);
  check_roots(roots, options);
  const rpc::PlaceScope nowhere(places_, rpc::Place{});
  for (auto& [owner, share] : context.owners) share.segments.freeze();
  const Reached reached = Walk(context, self()).from(roots);
  std::vector<Leaf> leaves = reached.leaves;
  if (!options.inputs.empty()) {
    std::erase_if(leaves, [&](const Leaf& leaf) {
      return leaf.owner == self() &&
             std::none_of(options.inputs.begin(), options.inputs.end(),
                          [&](const auto& input) { return input.is_same(leaf.tensor); });
    });
  }
  auto gradients = run_engine(roots, leaves, options);
  std::map<WorkerId, GradientMap> staged;
  for (const auto& [owner, live] : reached.participants) staged[owner];
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (gradients[i].defined())
      staged[leaves[i].owner].accumulate(leaves[i].tensor, gradients[i], 1, leaves[i].use);
  }
  for (auto& [owner, map] : staged) commit(id, owner, std::move(map));
}

void UncutAutograd::commit(ContextId id, WorkerId owner, GradientMap staged) {
  UncutJob::Context& context = require(id);
  UncutJob::Owner& share = context.owners[owner];
  share.gradients = share.gradients.merged(std::move(staged), &share.segments);
  JournalEntry key;
  key.step = context.place.step;
  key.creator = creator_of(id);
  key.ordinal = context.place.ordinal;
  key.pass = share.passes++;
  key.owner = owner;
  write_journal(world_, key, share.gradients.in_order(&share.segments));
}

std::vector<GradientMap::Entry> UncutAutograd::gradients(ContextId id) {
  UncutJob::Context& context = require(id);
  const rpc::PlaceScope nowhere(places_, rpc::Place{});
  UncutJob::Owner& share = context.owners[self()];
  share.segments.freeze();
  return share.gradients.in_order(&share.segments);
}

}  // namespace rehearse::autograd
