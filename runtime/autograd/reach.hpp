#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/autograd/provenance.hpp"

namespace rehearse::autograd {

/// What the walks below need to know of a graph. An example for torch:
///
///     struct TorchNodes {
///       using Node = torch::autograd::Node;
///       std::uint64_t sequence(Node* node) const;             // tells nodes at one address apart
///       std::size_t edge_count(Node* node) const;
///       Node* target(Node* node, std::size_t edge) const;     // null for no edge
///       std::optional<PairId> pair(Node* node) const;         // of a recv node of this context
///     };
///
/// A recv node has no targets. The graph behind a node never changes once it has been asked for.
///
/// Computes, per node, the set of recv pairs it reaches, each node once in its life: a memo keyed
/// by (address, sequence number), since addresses are reused. Iterative: chains may be long.
template <class Nodes>
class Reach {
 public:
  using Node = typename Nodes::Node;

  explicit Reach(Provenance& provenance, Nodes nodes = {})
      : provenance_(provenance), nodes_(std::move(nodes)) {}

  /// The pairs that `node` reaches, itself included. Stops with what it has once the provenance is
  /// saturated: do not use the result then.
  SetId of(Node* node) {
    if (const SetId* known = find(node)) return *known;
    std::vector<Visit> path{{node, 0}};
    while (!path.empty() && !provenance_.saturated()) step(path);
    const SetId* known = find(node);
    return known ? *known : Provenance::empty();
  }

  /// The pairs that a send node reaches through its edges.
  SetId behind(Node* send) {
    SetId set = Provenance::empty();
    for (std::size_t i = 0; i < nodes_.edge_count(send) && !provenance_.saturated(); ++i) {
      if (Node* target = nodes_.target(send, i)) set = join(set, of(target));
    }
    return provenance_.saturated() ? Provenance::empty() : set;
  }

  void clear() { std::unordered_map<Node*, Known>().swap(memo_); }
  std::size_t visited() const { return visited_; }

 private:
  struct Known {
    std::uint64_t sequence = 0;
    SetId set;
  };
  struct Visit {
    Node* node = nullptr;
    std::size_t edge = 0;
  };

  const SetId* find(Node* node) const {
    const auto at = memo_.find(node);
    if (at == memo_.end() || at->second.sequence != nodes_.sequence(node)) return nullptr;
    return &at->second.set;
  }

  SetId join(SetId a, SetId b) {
    return provenance_.saturated() ? Provenance::empty() : provenance_.join(a, b);
  }

  void step(std::vector<Visit>& path) {
    Visit& visit = path.back();
    for (; visit.edge < nodes_.edge_count(visit.node); ++visit.edge) {
      Node* target = nodes_.target(visit.node, visit.edge);
      if (!target || find(target)) continue;
      path.push_back({target, 0});
      return;
    }
    Node* node = visit.node;
    path.pop_back();
    if (!find(node)) remember(node);
  }

  void remember(Node* node) {
    ++visited_;
    SetId set = Provenance::empty();
    if (const std::optional<PairId> pair = nodes_.pair(node)) set = provenance_.single(*pair);
    for (std::size_t i = 0; i < nodes_.edge_count(node); ++i) {
      if (Node* target = nodes_.target(node, i)) set = join(set, *find(target));
    }
    if (!provenance_.saturated()) memo_[node] = {nodes_.sequence(node), set};
  }

  Provenance& provenance_;
  Nodes nodes_;
  std::unordered_map<Node*, Known> memo_;
  std::size_t visited_ = 0;
};

/// The recv pairs that `roots` reach, sorted: a plain walk without memo, for backward itself and
/// for opaque pairs.
template <class Nodes>
std::vector<PairId> reached_pairs(const std::vector<typename Nodes::Node*>& roots,
                                  const Nodes& nodes = {}) {
  std::vector<PairId> pairs;
  std::unordered_set<const void*> seen;
  std::vector<typename Nodes::Node*> left;
  const auto visit = [&](typename Nodes::Node* node) {
    if (node && seen.insert(node).second) left.push_back(node);
  };
  for (auto* root : roots) visit(root);
  while (!left.empty()) {
    auto* node = left.back();
    left.pop_back();
    if (const std::optional<PairId> pair = nodes.pair(node)) pairs.push_back(*pair);
    for (std::size_t i = 0; i < nodes.edge_count(node); ++i) visit(nodes.target(node, i));
  }
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  return pairs;
}

}  // namespace rehearse::autograd
