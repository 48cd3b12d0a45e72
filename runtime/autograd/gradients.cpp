#include "runtime/autograd/gradients.hpp"

#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>
#include <utility>

#include "runtime/autograd/segments.hpp"
#include "runtime/base/random.hpp"

namespace rehearse::autograd {
namespace {

using torch::autograd::AccumulateGrad;

using UseKey = std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>;

UseKey key(const FirstUse& use, const Segments* segments) {
  if (use.sequence == FirstUse().sequence) {
    return {std::numeric_limits<std::uint32_t>::max(), use.sequence, use.input};
  }
  return {segments ? segments->rank(use.sequence) : 0, use.sequence, use.input};
}

void add_to(at::Tensor& sum, const at::Tensor& leaf, const at::Tensor& gradient,
            std::size_t expected_references) {
  AccumulateGrad::accumulateGrad(leaf, sum, gradient, expected_references,
                                 [&](at::Tensor&& result) { sum = std::move(result); });
}

bool same_dense_layout(const at::Tensor& left, const at::Tensor& right) {
  return left.layout() == at::kStrided && right.layout() == at::kStrided &&
         left.scalar_type() == right.scalar_type() && left.strides() == right.strides();
}

// The same bits and layout as adding in place, in a new tensor.
at::Tensor sum_of(const at::Tensor& leaf, const at::Tensor& present, const at::Tensor& gradient) {
  if (same_dense_layout(present, gradient)) return present + gradient;
  at::Tensor sum = at::GradMode::is_enabled() ? present : present.clone();
  add_to(sum, leaf, gradient, 1);
  return sum;
}

// Four lanes, because one would wait for its own multiplications.
std::uint64_t hash_bytes(const void* data, std::size_t size_bytes) {
  constexpr std::size_t kLanes = 4;
  constexpr std::size_t kBlockBytes = kLanes * sizeof(std::uint64_t);
  const auto* from = static_cast<const std::byte*>(data);
  std::array<std::uint64_t, kLanes> lanes{1, 2, 3, 4};
  for (std::size_t at = 0; at < size_bytes; at += kBlockBytes) {
    std::array<std::uint64_t, kLanes> words{};
    std::memcpy(words.data(), from + at, std::min(kBlockBytes, size_bytes - at));
    for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = mix64(lanes[i] ^ words[i]);
  }
  return Hash64().add(size_bytes).add(lanes[0]).add(lanes[1]).add(lanes[2]).add(lanes[3]).value();
}

std::uint64_t hash_strided(const at::Tensor& tensor) {
  at::Tensor plain = tensor._is_zerotensor() ? at::zeros(tensor.sizes(), tensor.options())
                                             : tensor.resolve_conj().resolve_neg();
  plain = plain.cpu().contiguous();
  return plain.numel() == 0 ? hash_bytes(nullptr, 0)
                            : hash_bytes(plain.const_data_ptr(), plain.nbytes());
}

bool is_compressed_by_rows(const at::Tensor& tensor) {
  return tensor.layout() == at::kSparseCsr || tensor.layout() == at::kSparseBsr;
}

void add_parts(Hash64& hash, const at::Tensor& tensor) {
  if (tensor.layout() == at::kStrided) {
    hash.add(hash_strided(tensor));
  } else if (tensor.is_sparse()) {
    hash.add(tensor.is_coalesced()).add(digest(tensor._indices())).add(digest(tensor._values()));
  } else {
    const bool rows = is_compressed_by_rows(tensor);
    hash.add(digest(rows ? tensor.crow_indices() : tensor.ccol_indices()));
    hash.add(digest(rows ? tensor.col_indices() : tensor.row_indices()));
    hash.add(digest(tensor.values()));
  }
}

}  // namespace

GradientMap::Entry& GradientMap::entry(const at::Tensor& leaf, FirstUse use) {
  const auto next = static_cast<std::uint32_t>(entries_.size());
  const auto [found, fresh] = index_.try_emplace(leaf.unsafeGetTensorImpl(), next);
  if (fresh) entries_.push_back({leaf, at::Tensor(), use});
  return entries_[found->second];
}

void GradientMap::accumulate(const at::Tensor& leaf, const at::Tensor& gradient,
                             std::size_t expected_references, FirstUse use) {
  at::Tensor& sum = entry(leaf, use).gradient;
  // As `torch::autograd::grad` gives it: a copy would be a node of its own in the next order.
  if (!sum.defined() && at::GradMode::is_enabled()) {
    sum = gradient;
    return;
  }
  add_to(sum, leaf, gradient, expected_references);
}

GradientMap GradientMap::merged(GradientMap staged, const Segments* segments) const {
  if (empty()) return staged;
  GradientMap result = *this;
  for (Entry& added : staged.in_order(segments)) {
    Entry& entry = result.entry(added.leaf, added.first_use);
    if (key(added.first_use, segments) < key(entry.first_use, segments)) {
      entry.first_use = added.first_use;
    }
    entry.gradient = entry.gradient.defined() ? sum_of(added.leaf, entry.gradient, added.gradient)
                                              : std::move(added.gradient);
  }
  return result;
}

at::Tensor GradientMap::gradient(const at::Tensor& leaf) const {
  const auto found = index_.find(leaf.unsafeGetTensorImpl());
  return found == index_.end() ? at::Tensor() : entries_[found->second].gradient;
}

std::vector<GradientMap::Entry> GradientMap::in_order(const Segments* segments) const {
  std::vector<std::pair<UseKey, std::uint32_t>> order;
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    order.emplace_back(key(entries_[i].first_use, segments), i);
  }
  std::sort(order.begin(), order.end());
  std::vector<Entry> sorted;
  for (const auto& [use, i] : order) sorted.push_back(entries_[i]);
  return sorted;
}

void GradientMap::clear() {
  entries_.clear();
  index_.clear();
}

std::uint64_t digest(const at::Tensor& tensor) {
  if (!tensor.defined()) return Hash64().add("undefined").value();
  const at::NoGradGuard no_grad;
  Hash64 hash;
  hash.add(static_cast<std::uint64_t>(tensor.scalar_type()));
  hash.add(static_cast<std::uint64_t>(tensor.layout()));
  hash.add(static_cast<std::uint64_t>(tensor.dim()));
  for (const std::int64_t size : tensor.sizes()) hash.add(static_cast<std::uint64_t>(size));
  add_parts(hash, tensor.detach());
  return hash.value();
}

}  // namespace rehearse::autograd
