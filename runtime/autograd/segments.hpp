#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace rehearse::autograd {

/// Where a handler stands in the sequential program, in which every call runs at its call site:
/// the root's 2·worker+1, then 2k+1 for the k-th call issued, and so on down to the handler.
using CallPath = std::vector<std::uint32_t>;

/// Which part of the sequential program made which autograd nodes, for one worker and one context.
/// Code that a handler with path P runs after it has issued j calls is the segment (P, 2j): own
/// code is even and callees are odd, so code before and after call k sorts around the callee.
/// Torch numbers nodes by a counter of the thread; a segment owns intervals of those numbers.
class Segments {
 public:
  /// What runs from now on belongs to segment (`path`, 2·`issued`). `sequence` is the counter now
  /// (`at::sequence_number::peek()`); it never goes back. `part` orders inside one segment: the
  /// sums behind a node of a pass that records its graph.
  /// REQUIRES: nothing is open.
  void open(std::uint64_t sequence, std::shared_ptr<const CallPath> path, std::uint32_t issued,
            std::uint32_t part = 0);

  /// The open segment is left, or goes on later: at a wait, a call, the end of the handler.
  /// REQUIRES: one is open.
  void close(std::uint64_t sequence);

  /// Sorts what was recorded since the last time into the sequential order.
  /// REQUIRES: nothing is open.
  void freeze();

  /// The position of the segment that made node `sequence`: from 1 on in sequential order, 0 for
  /// nodes that no segment made (before the context was opened, by another worker).
  /// REQUIRES: frozen since the last interval was recorded.
  std::uint32_t rank(std::uint64_t sequence) const;

  /// Intervals recorded; empty ones are not.
  std::size_t size() const { return starts_.size(); }

 private:
  struct Interval {
    std::shared_ptr<const CallPath> path;
    std::uint64_t end = 0;
    std::uint32_t place = 0;
    std::uint32_t part = 0;
    std::uint32_t rank = 0;
  };

  static bool before(const Interval& left, const Interval& right);
  void record(std::uint64_t start);

  std::vector<std::uint64_t> starts_;  // ascending; beside the intervals to keep searches in cache
  std::vector<Interval> intervals_;
  std::vector<std::uint32_t> order_;  // of the frozen ones
  Interval open_;
  std::uint64_t open_start_ = 0;
};

}  // namespace rehearse::autograd
