#include "runtime/rpc/tensors.hpp"

#include <ATen/ops/_indices.h>
#include <ATen/ops/_values.h>
#include <ATen/ops/ccol_indices.h>
#include <ATen/ops/col_indices.h>
#include <ATen/ops/crow_indices.h>
#include <ATen/ops/row_indices.h>
#include <ATen/ops/values.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/GradMode.h>
#include <c10/util/strides.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "runtime/rpc/tensor_kinds.hpp"

namespace rehearse::rpc {
namespace {

std::optional<TensorKind> sparse_kind(c10::Layout layout) {
  if (layout == c10::kSparse) return TensorKind::coo;
  for (std::size_t index = 0; index < kCompressedLayouts.size(); ++index) {
    if (layout == kCompressedLayouts[index]) {
      return static_cast<TensorKind>(static_cast<std::size_t>(TensorKind::csr) + index);
    }
  }
  return std::nullopt;
}

/// Why `tensor` cannot cross; empty if it can.
std::string refusal(const at::Tensor& tensor) {
  if (!tensor.device().is_cpu()) {
    return fmt::format("is on {}; move it to the CPU first", tensor.device().str());
  }
  if (tensor.is_nested()) return "is nested; send its components";
  if (tensor.is_mkldnn()) return "has mkldnn layout; send to_dense()";
  if (tensor.has_names()) return "has named dimensions; send rename(None)";
  if (plain_size_bytes(tensor.scalar_type()) == 0) {
    return fmt::format("is quantized ({}); send dequantize() or int_repr()",
                       c10::toString(tensor.scalar_type()));
  }
  if (tensor.layout() == c10::kStrided) {
    if (tensor.has_storage() || tensor._is_zerotensor()) return {};
    return "has no storage; it is inside a functorch transform";
  }
  if (sparse_kind(tensor.layout())) return {};
  return fmt::format("has a layout (number {}) that does not cross",
                     static_cast<int>(tensor.layout()));
}

/// True if nobody but `tensor` can reach its memory, now or later.
bool sole_holder(const at::Tensor& tensor) {
  if (tensor.use_count() != 1 || tensor.weak_use_count() != 1) return false;
  const c10::Storage& storage = tensor.storage();
  return storage.use_count() == 1 &&
         (storage.data_ptr().get_deleter() == c10::GetCPUAllocator()->raw_deleter() ||
          is_adopted(storage.data_ptr()));
}

/// An integer or complex type of that size: torch copies with strides only types it computes with.
c10::ScalarType carrier(std::size_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return c10::kByte;
    case 2:
      return c10::kShort;
    case 4:
      return c10::kInt;
    case 8:
      return c10::kLong;
    default:
      return c10::kComplexDouble;
  }
}

at::Tensor contiguous(const at::Tensor& tensor) {
  const c10::ScalarType dtype = tensor.scalar_type();
  return tensor.view(carrier(static_cast<std::size_t>(tensor.element_size())))
      .contiguous()
      .view(dtype);
}

/// Same values, strided and dense, with no lazy views. May share memory with `tensor`.
at::Tensor plain(const at::Tensor& tensor) {
  if (tensor._is_zerotensor()) return at::zeros(tensor.sizes(), tensor.options());
  // Each of these is an operator call, a microsecond that most tensors do not need.
  at::Tensor resolved = tensor.requires_grad() ? tensor.detach() : tensor;
  if (resolved.is_conj()) resolved = resolved.resolve_conj();
  if (resolved.is_neg()) resolved = resolved.resolve_neg();
  if (resolved.is_non_overlapping_and_dense()) return resolved;
  return contiguous(resolved);
}

Payload snapshot(const at::Tensor& tensor, Buffers& buffers) {
  Buffer copy = buffers.take(tensor.nbytes());
  if (!copy.owner) throw std::bad_alloc();
  std::memcpy(copy.bytes.data(), tensor.const_data_ptr(), tensor.nbytes());
  return Payload(std::move(copy.owner), copy.bytes);
}

Payload held(at::Tensor tensor) {
  const std::span bytes(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes());
  return Payload(std::make_shared<const at::Tensor>(std::move(tensor)), bytes);
}

class TensorPacker {
 public:
  TensorPacker(Writer& header, std::vector<Payload>& payloads, Buffers& buffers)
      : header_(header), payloads_(payloads), buffers_(buffers) {}

  /// `tensor` is given away where its memory is its own.
  void pack(at::Tensor tensor, bool given_away) {
    if (!tensor.defined()) return put_kind(TensorKind::undefined);
    if (tensor.layout() == c10::kStrided) return pack_strided(std::move(tensor), given_away);
    pack_sparse(tensor.detach());
  }

 private:
  void put_kind(TensorKind kind) { header_.put(kind); }

  void put_sizes(at::IntArrayRef sizes) {
    for (const std::int64_t size : sizes) header_.put_varint(static_cast<std::uint64_t>(size));
  }

  void pack_strided(at::Tensor tensor, bool given_away) {
    at::Tensor values = plain(tensor);
    const bool copied = tensor._is_zerotensor() || !values.is_alias_of(tensor);
    put_shape(values);
    if (values.nbytes() == 0) return;
    if (copied) {
      payloads_.push_back(held(std::move(values)));
      return;
    }
    values.reset();  // it counts as a holder
    const bool own = given_away && sole_holder(tensor);
    payloads_.push_back(own ? held(std::move(tensor)) : snapshot(tensor, buffers_));
  }

  void put_shape(const at::Tensor& values) {
    const bool default_strides = values.strides() == c10::contiguous_strides(values.sizes());
    put_kind(default_strides ? TensorKind::contiguous : TensorKind::strided);
    header_.put(values.scalar_type());
    header_.put_varint(static_cast<std::uint64_t>(values.dim()));
    put_sizes(values.sizes());
    if (!default_strides) put_sizes(values.strides());
  }

  void pack_sparse(const at::Tensor& tensor) {
    const TensorKind kind = *sparse_kind(tensor.layout());
    put_kind(kind);
    if (kind == TensorKind::coo) header_.put(tensor.is_coalesced());
    header_.put_varint(static_cast<std::uint64_t>(tensor.dim()));
    put_sizes(tensor.sizes());
    if (kind == TensorKind::coo) {
      pack(tensor._indices(), false);
      pack(tensor._values(), false);
      return;
    }
    const bool rows = kind == TensorKind::csr || kind == TensorKind::bsr;
    pack(rows ? tensor.crow_indices() : tensor.ccol_indices(), false);
    pack(rows ? tensor.col_indices() : tensor.row_indices(), false);
    pack(tensor.values(), false);
  }

  Writer& header_;
  std::vector<Payload>& payloads_;
  Buffers& buffers_;
};

}  // namespace

Status check_tensors(const std::vector<at::Tensor>& tensors) {
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    if (!tensors[index].defined()) continue;
    if (std::string why = refusal(tensors[index]); !why.empty()) {
      return Failure{Code::bad_argument, fmt::format("tensor {} {}", index, why), {}, 0};
    }
  }
  return {};
}

Status pack_tensors(const std::vector<at::Tensor>& tensors, Writer& header,
                    std::vector<Payload>& payloads) {
  if (Status status = check_tensors(tensors); !status.ok()) return status;
  const c10::AutoGradMode no_grad(false);
  header.put_varint(tensors.size());
  Buffers heap;
  TensorPacker packer(header, payloads, heap);
  for (const at::Tensor& tensor : tensors) packer.pack(tensor, false);
  return {};
}

Status pack_tensors(std::vector<at::Tensor>&& tensors, Writer& header,
                    std::vector<Payload>& payloads, Buffers& buffers) {
  if (Status status = check_tensors(tensors); !status.ok()) return status;
  const c10::AutoGradMode no_grad(false);
  header.put_varint(tensors.size());
  TensorPacker packer(header, payloads, buffers);
  for (at::Tensor& tensor : tensors) packer.pack(std::move(tensor), true);
  tensors.clear();
  return {};
}

}  // namespace rehearse::rpc
