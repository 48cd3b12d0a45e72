#include "runtime/autograd/journal.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>

#include <optional>

namespace rehearse::autograd {
namespace {

std::optional<Element> element_of(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
      return Element::float16;
    case at::kBFloat16:
      return Element::bfloat16;
    case at::kFloat:
      return Element::float32;
    case at::kDouble:
      return Element::float64;
    default:
      return std::nullopt;
  }
}

at::Tensor plain(at::Tensor tensor) {
  if (tensor.layout() != at::kStrided) tensor = tensor.to_dense();
  if (tensor._is_zerotensor()) tensor = at::zeros(tensor.sizes(), tensor.options());
  tensor = tensor.resolve_conj().resolve_neg();
  if (tensor.is_complex()) tensor = at::view_as_real(tensor);
  if (!element_of(tensor.scalar_type())) tensor = tensor.to(at::kDouble);
  return tensor.cpu().contiguous();
}

}  // namespace

Bytes journal_values(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  const at::NoGradGuard no_grad;
  const at::Tensor numbers = plain(tensor.detach());
  const auto* first = static_cast<const std::byte*>(numbers.const_data_ptr());
  Bytes bytes{static_cast<std::byte>(*element_of(numbers.scalar_type()))};
  bytes.insert(bytes.end(), first, first + numbers.nbytes());
  return bytes;
}

void write_journal(World& world, JournalEntry line, const at::Tensor& tensor) {
  line.digest = digest(tensor);
  if (world.limits.journal_values) line.values = journal_values(tensor);
  world.events.journal(line);
}

void write_journal(World& world, const JournalEntry& key,
                   const std::vector<GradientMap::Entry>& gradients) {
  JournalEntry line = key;
  line.leaf = 0;
  for (const auto& entry : gradients) {
    write_journal(world, line, entry.gradient);
    ++line.leaf;
  }
}

}  // namespace rehearse::autograd
