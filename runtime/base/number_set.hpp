#pragma once

#include <cstdint>
#include <iterator>
#include <map>

namespace rehearse {

/// A set of numbers, kept as ranges: it takes memory for its gaps, not for its numbers.
class NumberSet {
 public:
  void add(std::uint32_t number) { add(number, number); }

  /// All from `first` to `last`.
  void add(std::uint32_t first, std::uint32_t last) {
    auto next = ranges_.upper_bound(first);
    if (next != ranges_.begin()) {
      const auto before = std::prev(next);
      if (before->second >= last) return;
      if (before->second + 1 >= first) {
        first = before->first;
        ranges_.erase(before);
      }
    }
    while (next != ranges_.end() && next->first <= last + 1) {
      last = next->second > last ? next->second : last;
      next = ranges_.erase(next);
    }
    ranges_.emplace_hint(next, first, last);
  }

  bool contains(std::uint32_t number) const {
    const auto next = ranges_.upper_bound(number);
    return next != ranges_.begin() && std::prev(next)->second >= number;
  }

  std::size_t ranges() const { return ranges_.size(); }

 private:
  std::map<std::uint32_t, std::uint32_t> ranges_;  // first and last; never adjacent
};

}  // namespace rehearse
