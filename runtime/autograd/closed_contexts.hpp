#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "runtime/autograd/ids.hpp"

namespace rehearse::autograd {

/// Which contexts are over, so that a late message does not open one again. Contexts of a creator
/// are numbered in order and mostly close in order: a watermark and the few above it.
class ClosedContexts {
 public:
  void add(ContextId context) {
    Closed& closed = closed_[creator_and_generation(context)];
    const std::uint32_t counter = counter_of(context);
    if (counter < closed.below) return;
    closed.above.insert(counter);
    compact(closed);
  }
  /// All with a counter below `watermark` are over.
  void add_below(ContextId any_of_creator, std::uint32_t watermark) {
    Closed& closed = closed_[creator_and_generation(any_of_creator)];
    if (watermark <= closed.below) return;
    closed.below = watermark;
    closed.above.erase(closed.above.begin(), closed.above.lower_bound(watermark));
    compact(closed);
  }
  bool contains(ContextId context) const {
    const auto found = closed_.find(creator_and_generation(context));
    if (found == closed_.end()) return false;
    const std::uint32_t counter = counter_of(context);
    return counter < found->second.below || found->second.above.contains(counter);
  }

 private:
  struct Closed {
    std::uint32_t below = 1;  // counters start at 1
    std::set<std::uint32_t> above;
  };
  using Key = std::pair<WorkerId, std::uint16_t>;

  static Key creator_and_generation(ContextId context) {
    return {creator_of(context), generation_of(context)};
  }
  static void compact(Closed& closed) {
    while (!closed.above.empty() && *closed.above.begin() == closed.below) {
      closed.above.erase(closed.above.begin());
      ++closed.below;
    }
  }

  std::map<Key, Closed> closed_;
};

}  // namespace rehearse::autograd
