#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "runtime/autograd/provenance.hpp"
#include "runtime/base/random.hpp"

namespace rehearse::autograd {

/// A forward pass as seen from above: which messages crossed, in order, and what was behind each.
class MessageGraph {
 public:
  struct Crossed {
    PairId pair;
    WorkerId receiver = 0;
    std::vector<PairId> behind;  ///< received earlier by its sender; sorted
  };

  explicit MessageGraph(int workers) : next_(workers), received_(workers) {}

  static MessageGraph random(Random random, int workers, int messages) {
    MessageGraph graph(workers);
    for (int i = 0; i < messages; ++i) {
      const auto from = static_cast<WorkerId>(random.below(workers));
      const auto to = static_cast<WorkerId>(random.below(workers));
      graph.cross(from, to, graph.some_received(random, from));
    }
    return graph;
  }

  PairId cross(WorkerId from, WorkerId to, std::vector<PairId> behind) {
    std::sort(behind.begin(), behind.end());
    const PairId pair(from, next_[from]++);
    index_[pair] = crossed_.size();
    crossed_.push_back({pair, to, std::move(behind)});
    received_[to].push_back(pair);
    return pair;
  }

  /// Mostly the latest ones.
  std::vector<PairId> some_received(Random& random, WorkerId worker) const {
    std::set<PairId> some;
    const auto& all = received_[worker];
    if (all.empty()) return {};
    for (std::uint64_t count = random.below(4); count > 0; --count) {
      const std::uint64_t back = random.below(std::min<std::uint64_t>(all.size(), 8));
      some.insert(all[all.size() - 1 - back]);
    }
    return {some.begin(), some.end()};
  }

  const std::vector<Crossed>& crossed() const { return crossed_; }
  const std::vector<PairId>& received(WorkerId worker) const { return received_[worker]; }
  const Crossed& at(PairId pair) const { return crossed_[index_.at(pair)]; }
  int workers() const { return static_cast<int>(next_.size()); }

  /// The live sends per worker behind `reached`, by a walk over everything.
  std::map<WorkerId, std::vector<PairId>> live(const std::vector<PairId>& reached) const {
    std::set<PairId> seen;
    std::vector<PairId> left = reached;
    while (!left.empty()) {
      const PairId pair = left.back();
      left.pop_back();
      if (!seen.insert(pair).second) continue;
      const auto& behind = at(pair).behind;
      left.insert(left.end(), behind.begin(), behind.end());
    }
    std::map<WorkerId, std::vector<PairId>> sends;
    for (const PairId pair : seen) sends[pair.owner()].push_back(pair);
    return sends;
  }

 private:
  std::vector<std::uint64_t> next_;
  std::vector<std::vector<PairId>> received_;
  std::vector<Crossed> crossed_;
  std::map<PairId, std::size_t> index_;
};

}  // namespace rehearse::autograd
