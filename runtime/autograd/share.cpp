#include "runtime/autograd/share.hpp"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>

#include "runtime/autograd/protocol.hpp"
#include "runtime/autograd/reach.hpp"

namespace rehearse::autograd {
namespace {

// Torch's graph for the walks of reach.hpp, inside one context.
struct TorchNodes {
  using Node = torch::autograd::Node;
  ContextId context = 0;

  std::uint64_t sequence(Node* node) const { return node->sequence_nr(); }
  std::size_t edge_count(Node* node) const { return node->num_outputs(); }
  Node* target(Node* node, std::size_t edge) const { return node->next_edge(edge).function.get(); }
  std::optional<PairId> pair(Node* node) const {
    const auto here = received(*node);
    if (!here) return std::nullopt;
    if (here->context == context) return here->pair;
    throw Error(
        {Code::bad_argument,
         fmt::format("a tensor received in context {:#x} is used in context {:#x}: gradients "
                     "cannot pass from one context into another; detach it",
                     here->context, context),
         {},
         context});
  }
};

ProvenanceBounds bounds_of(const Limits& limits) {
  ProvenanceBounds bounds;
  bounds.message_items = static_cast<std::size_t>(limits.provenance_items);
  bounds.words = limits.provenance_words;
  return bounds;
}

PassBounds pass_bounds_of(const Limits& limits) {
  PassBounds bounds;
  bounds.report_tree_above = static_cast<std::size_t>(limits.report_tree_above);
  return bounds;
}

std::vector<bool> which_require_grad(const std::vector<at::Tensor>& tensors) {
  std::vector<bool> flags;
  for (const auto& tensor : tensors) flags.push_back(tensor.defined() && tensor.requires_grad());
  return flags;
}

void put_flags(const std::vector<bool>& flags, Writer& to) {
  to.put_varint(flags.size());
  for (std::size_t i = 0; i < flags.size(); i += 8) {
    std::uint8_t byte = 0;
    for (std::size_t bit = 0; bit < 8 && i + bit < flags.size(); ++bit) {
      if (flags[i + bit]) byte |= static_cast<std::uint8_t>(1u << bit);
    }
    to.put(byte);
  }
}

std::vector<bool> get_flags(Reader& from, std::size_t expected) {
  std::vector<bool> flags;
  if (from.get_varint() != expected) return flags;
  std::uint8_t byte = 0;
  for (std::size_t i = 0; i < expected; ++i) {
    if (i % 8 == 0) byte = from.get<std::uint8_t>();
    flags.push_back((byte >> (i % 8) & 1) != 0);
  }
  return flags;
}

}  // namespace

struct Share::Graph {
  struct Sent {
    std::shared_ptr<SendNode> node;
    WorkerId to = 0;
  };

  Graph(ContextId context, WorkerId self, const Limits& limits, Provenance::Rare rare)
      : nodes{context},
        provenance(
            self, bounds_of(limits), [this](PairId pair) { return item_of(pair); },
            std::move(rare)),
        reach(provenance, nodes) {}

  std::optional<Item> item_of(PairId pair) const {
    const auto found = sent.find(pair);
    if (found == sent.end()) return std::nullopt;
    return Item{pair, found->second.to,
                reached_pairs<TorchNodes>({as_node(found->second.node).get()}, nodes)};
  }

  TorchNodes nodes;
  std::vector<std::shared_ptr<torch::autograd::Node>> live_roots;
  std::optional<LiveSet> live;
  std::map<PairId, Sent> sent;
  Provenance provenance;
  Reach<TorchNodes> reach;
};

Share::Share(ContextId context, WorkerId self, const Limits& limits, Provenance::Rare rare)
    : core(context, self, pass_bounds_of(limits)),
      id_(context),
      self_(self),
      graph_(std::make_unique<Graph>(context, self, limits, std::move(rare))) {}

Share::~Share() = default;

Provenance& Share::provenance() { return graph_->provenance; }

void Share::send(WorkerId to, const std::vector<at::Tensor>& tensors, Writer& header) {
  const PairId pair(self_, next_pair_);
  std::shared_ptr<SendNode> node = cut_send(tensors, pair);
  header.put(node != nullptr);
  if (!node) return;
  ++next_pair_;
  const SetId behind =
      provenance().saturated() ? Provenance::empty() : graph_->reach.behind(as_node(node).get());
  graph_->sent.emplace(pair, Graph::Sent{node, to});
  if (provenance().saturated()) graph_->reach.clear();
  put(header, Crossing{pair, provenance().on_send(pair, to, behind)});
  put_flags(which_require_grad(tensors), header);
}

Status Share::receive(WorkerId from, std::vector<at::Tensor>& tensors, Reader& header) {
  const auto crossing = get_crossing(header);
  const std::vector<bool> flags = get_flags(header, tensors.size());
  if (!crossing || header.failed() || flags.size() != tensors.size() ||
      crossing->pair.owner() != from) {
    return Failure{Code::corrupt, "the autograd part of a message cannot be read", {}, id_};
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool fits =
        tensors[i].defined() && (tensors[i].is_floating_point() || tensors[i].is_complex());
    if (flags[i] && !fits) {
      return Failure{Code::corrupt, "a tensor that cannot require grad is said to", {}, id_};
    }
  }
  provenance().on_receive(from, crossing->items);
  cut_receive(tensors, flags, {id_, crossing->pair}, worker_name(from));
  return {};
}

const LiveSet* Share::remembered(const std::vector<at::Tensor>& roots) const {
  const bool same =
      graph_->live &&
      std::equal(roots.begin(), roots.end(), graph_->live_roots.begin(), graph_->live_roots.end(),
                 [](const at::Tensor& root, const auto& node) { return root.grad_fn() == node; });
  return same ? &*graph_->live : nullptr;
}

void Share::remember(const std::vector<at::Tensor>& roots, LiveSet live) {
  graph_->live_roots.clear();
  for (const auto& root : roots) graph_->live_roots.push_back(root.grad_fn());
  graph_->live = std::move(live);
}

std::vector<PairId> Share::reached(const std::vector<at::Tensor>& roots) const {
  std::vector<torch::autograd::Node*> nodes;
  for (const auto& root : roots) nodes.push_back(root.grad_fn().get());
  return reached_pairs<TorchNodes>(nodes, graph_->nodes);
}

std::vector<std::shared_ptr<SendNode>> Share::sends(const std::vector<PairId>& pairs) const {
  std::vector<std::shared_ptr<SendNode>> nodes;
  for (const PairId pair : pairs) {
    if (const auto found = graph_->sent.find(pair); found != graph_->sent.end()) {
      nodes.push_back(found->second.node);
    }
  }
  return nodes;
}

}  // namespace rehearse::autograd
