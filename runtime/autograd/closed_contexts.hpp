#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "runtime/autograd/ids.hpp"
#include "runtime/base/number_set.hpp"

namespace rehearse::autograd {

/// Which contexts are over, so that a late message does not open one again. Contexts of a creator
/// are numbered from 1, in order, and mostly close in order.
class ClosedContexts {
 public:
  void add(ContextId context) { closed_[creator_and_generation(context)].add(counter_of(context)); }
  /// All with a counter below `watermark` are over.
  void add_below(ContextId any_of_creator, std::uint32_t watermark) {
    if (watermark > 1) closed_[creator_and_generation(any_of_creator)].add(1, watermark - 1);
  }
  bool contains(ContextId context) const {
    const auto found = closed_.find(creator_and_generation(context));
    return found != closed_.end() && found->second.contains(counter_of(context));
  }

 private:
  using Key = std::pair<WorkerId, std::uint16_t>;

  static Key creator_and_generation(ContextId context) {
    return {creator_of(context), generation_of(context)};
  }

  std::map<Key, NumberSet> closed_;
};

}  // namespace rehearse::autograd
