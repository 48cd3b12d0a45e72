#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/base/time.hpp"

namespace rehearse::fiber {

/// Something that waits for a time. It knows its place in the heap, so that a wait that ends early
/// takes its timer with it: a million calls with deadlines of a minute leave nothing behind.
struct Timed {
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
  std::size_t heap_place = kNowhere;
  bool is_group = false;
};

/// Earliest first; of one time, the one that was set first.
class TimerHeap {
 public:
  bool empty() const { return nodes_.empty(); }
  std::size_t size() const { return nodes_.size(); }
  Time next() const { return nodes_.empty() ? kNever : nodes_.front().at; }

  /// REQUIRES: `who` has no timer.
  void set(Timed& who, Time at) {
    nodes_.push_back({at, sequence_++, &who});
    rise(nodes_.size() - 1);
  }
  /// Nothing happens if it has none.
  void clear(Timed& who) {
    const std::size_t place = std::exchange(who.heap_place, Timed::kNowhere);
    if (place == Timed::kNowhere) return;
    const Node last = nodes_.back();
    nodes_.pop_back();
    if (last.who == &who) return;
    nodes_[place] = last;
    last.who->heap_place = place;
    sink(rise(place));
  }
  /// REQUIRES: not empty.
  Timed& take_first() {
    Timed& first = *nodes_.front().who;
    clear(first);
    return first;
  }

 private:
  struct Node {
    Time at;
    std::uint64_t sequence;
    Timed* who;
    bool before(const Node& other) const {
      return std::tie(at, sequence) < std::tie(other.at, other.sequence);
    }
  };

  void put(std::size_t place, const Node& node) {
    nodes_[place] = node;
    node.who->heap_place = place;
  }
  std::size_t rise(std::size_t place) {
    const Node node = nodes_[place];
    while (place > 0 && node.before(nodes_[(place - 1) / 2])) {
      put(place, nodes_[(place - 1) / 2]);
      place = (place - 1) / 2;
    }
    put(place, node);
    return place;
  }
  void sink(std::size_t place) {
    const Node node = nodes_[place];
    for (std::size_t child; (child = 2 * place + 1) < nodes_.size(); place = child) {
      if (child + 1 < nodes_.size() && nodes_[child + 1].before(nodes_[child])) ++child;
      if (!nodes_[child].before(node)) break;
      put(place, nodes_[child]);
    }
    put(place, node);
  }

  std::vector<Node> nodes_;
  std::uint64_t sequence_ = 0;
};

}  // namespace rehearse::fiber
