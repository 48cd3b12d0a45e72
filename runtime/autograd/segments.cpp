#include "runtime/autograd/segments.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/check.hpp"

namespace rehearse::autograd {

void Segments::open(std::uint64_t sequence, std::shared_ptr<const CallPath> path,
                    std::uint32_t issued, std::uint32_t part) {
  REHEARSE_CHECK(!open_.path, "a segment is opened while another is open");
  REHEARSE_CHECK(path, "a segment needs the path of its handler");
  open_.path = std::move(path);
  open_.place = 2 * issued;
  open_.part = part;
  open_start_ = sequence;
}

void Segments::close(std::uint64_t sequence) {
  REHEARSE_CHECK(open_.path, "a segment is closed that was not opened");
  open_.end = sequence;
  if (sequence > open_start_) record(open_start_);
  open_.path.reset();
}

void Segments::record(std::uint64_t start) {
  REHEARSE_CHECK(intervals_.empty() || intervals_.back().end <= start,
                 "the counter of autograd nodes went back: nodes recorded on another thread?");
  starts_.push_back(start);
  intervals_.push_back(std::move(open_));
}

// Compares path·place·part element by element without building the sequences.
bool Segments::before(const Interval& left, const Interval& right) {
  if (left.path != right.path) {
    const CallPath& a = *left.path;
    const CallPath& b = *right.path;
    const std::size_t common = std::min(a.size(), b.size());
    for (std::size_t i = 0; i < common; ++i) {
      if (a[i] != b[i]) return a[i] < b[i];
    }
    if (a.size() < b.size()) return left.place < b[common];
    if (a.size() > b.size()) return a[common] < right.place;
  }
  return std::pair(left.place, left.part) < std::pair(right.place, right.part);
}

void Segments::freeze() {
  REHEARSE_CHECK(!open_.path, "segments are sorted while one is open");
  if (order_.size() == intervals_.size()) return;
  const auto by_key = [&](std::uint32_t left, std::uint32_t right) {
    return before(intervals_[left], intervals_[right]);
  };
  const auto frozen = static_cast<std::ptrdiff_t>(order_.size());
  for (std::size_t i = order_.size(); i < intervals_.size(); ++i) {
    order_.push_back(static_cast<std::uint32_t>(i));
  }
  std::sort(order_.begin() + frozen, order_.end(), by_key);
  std::inplace_merge(order_.begin(), order_.begin() + frozen, order_.end(), by_key);
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < order_.size(); ++i) {
    if (i == 0 || by_key(order_[i - 1], order_[i])) ++rank;
    intervals_[order_[i]].rank = rank;
  }
}

std::uint32_t Segments::rank(std::uint64_t sequence) const {
  REHEARSE_CHECK(order_.size() == intervals_.size(), "freeze the segments before asking for ranks");
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), sequence);
  if (after == starts_.begin()) return 0;
  const Interval& interval = intervals_[static_cast<std::size_t>(after - starts_.begin() - 1)];
  return sequence < interval.end ? interval.rank : 0;
}

}  // namespace rehearse::autograd
