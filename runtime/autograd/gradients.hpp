#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

namespace rehearse::autograd {

class Segments;

/// A leaf's place in the program: the node, first in canonical order, that has the leaf as an
/// input, and the number of that input. The defaults stand for a leaf that is itself a root.
struct FirstUse {
  std::uint64_t sequence = std::numeric_limits<std::uint64_t>::max();
  std::uint32_t input = 0;
};

/// The gradients of one context on one worker, leaf by leaf. Sums follow torch's rules for `.grad`
/// (buffers that nobody else holds are taken over, sparse plus dense is dense, strides follow the
/// leaf's), but `.grad` itself is never read or written.
class GradientMap {
 public:
  struct Entry {
    at::Tensor leaf;
    at::Tensor gradient;
    FirstUse first_use;
  };

  /// Adds `gradient`, which is defined, to the leaf's. Its buffer is taken over if at most
  /// `expected_references` references to it exist. May add in place to what the map holds.
  /// In grad mode the sum has a history, and a first gradient is kept as it is.
  void accumulate(const at::Tensor& leaf, const at::Tensor& gradient,
                  std::size_t expected_references, FirstUse use);

  /// This map plus `staged`, computed without changing a tensor of this map: to commit is to move
  /// the result here, and cannot fail. In grad mode sums have a history, recorded in canonical
  /// order. `segments` decides which use is first; without it the node made first is.
  GradientMap merged(GradientMap staged, const Segments* segments) const;

  /// The leaf's gradient; undefined if there is none.
  at::Tensor gradient(const at::Tensor& leaf) const;

  /// The entries by canonical order of first use: equal in every run of one program.
  std::vector<Entry> in_order(const Segments* segments) const;

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  void clear();

 private:
  Entry& entry(const at::Tensor& leaf, FirstUse use);

  std::vector<Entry> entries_;
  // Only for look-up: the order of its elements is never seen.
  std::unordered_map<const c10::TensorImpl*, std::uint32_t> index_;
};

/// A hash of dtype, sizes and bits, for comparing gradients between runs. Strides, and pending
/// conjugation or negation, do not count; a sparse tensor's indices, values and coalesced flag do.
/// An undefined tensor has a digest of its own.
std::uint64_t digest(const at::Tensor& tensor);

}  // namespace rehearse::autograd
