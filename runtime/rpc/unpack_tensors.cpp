#include <ATen/ops/_sparse_compressed_tensor_unsafe.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/_validate_sparse_compressed_tensor_args.h>
#include <ATen/ops/_validate_sparse_coo_tensor_args.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/GradMode.h>
#include <c10/core/alignment.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "runtime/rpc/tensor_kinds.hpp"
#include "runtime/rpc/tensors.hpp"

namespace rehearse::rpc {
namespace {

using Sizes = std::vector<std::int64_t>;

/// Thrown and caught in this file only: a header is read by code that recurses.
struct Corrupt {
  std::string why;
};

[[noreturn]] void corrupt(const char* why) { throw Corrupt{why}; }

std::uint64_t multiply(std::uint64_t left, std::uint64_t right) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(left, right, &product) ||
      product > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    corrupt("a tensor's sizes overflow");
  }
  return product;
}

/// Overflow is looked for in the sizes that are not zero, so that no partial product overflows.
std::uint64_t elements(const Sizes& sizes) {
  std::uint64_t count = 1;
  bool empty = false;
  for (const std::int64_t size : sizes) {
    if (size == 0) empty = true;
    if (size != 0) count = multiply(count, static_cast<std::uint64_t>(size));
  }
  return empty ? 0 : count;
}

Sizes default_strides(const Sizes& sizes) {
  Sizes strides(sizes.size());
  std::int64_t next = 1;
  for (std::size_t dim = sizes.size(); dim-- > 0;) {
    strides[dim] = next;
    next *= std::max<std::int64_t>(sizes[dim], 1);
  }
  return strides;
}

/// Dense and without overlaps: taken by stride, each dimension steps over the ones below it.
/// Strides of dimensions of size 1 are never used.
void require_dense(const Sizes& sizes, const Sizes& strides) {
  std::vector<std::size_t> dims;
  for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
    if (sizes[dim] > 1) dims.push_back(dim);
  }
  std::sort(dims.begin(), dims.end(),
            [&](std::size_t left, std::size_t right) { return strides[left] < strides[right]; });
  std::int64_t expected = 1;
  for (const std::size_t dim : dims) {
    if (strides[dim] != expected) corrupt("a tensor's strides leave gaps or overlap");
    expected *= sizes[dim];
  }
}

bool adoptable(const Payload& payload) {
  const auto address = reinterpret_cast<std::uintptr_t>(payload.bytes().data());
  return payload.owner().use_count() == 1 && address % c10::gAlignment == 0;
}

at::Tensor adopt(const Payload& payload, const Sizes& sizes, const Sizes& strides,
                 c10::ScalarType dtype) {
  // The owner may be written to through this tensor only: see `adoptable`. Resizable, with torch's
  // allocator for more, so that it behaves like a tensor that was copied.
  void* data = const_cast<std::byte*>(payload.bytes().data());
  auto owner = std::make_unique<std::shared_ptr<const void>>(payload.owner());
  return at::for_blob(data, sizes)
      .strides(at::IntArrayRef(strides))
      .context(owner.release(), &drop_adopted)
      .options(at::TensorOptions(dtype))
      .target_device(c10::Device(c10::kCPU))
      .resizeable_storage()
      .allocator(c10::GetCPUAllocator())
      .make_tensor();
}

class TensorUnpacker {
 public:
  TensorUnpacker(Reader& header, std::span<const Payload> payloads, std::size_t next_payload)
      : header_(header), payloads_(payloads), next_payload_(next_payload) {}

  std::vector<at::Tensor> unpack_all() {
    std::vector<at::Tensor> tensors(header_.get_count());
    for (at::Tensor& tensor : tensors) tensor = unpack_any();
    if (header_.failed()) corrupt("the header ends within a tensor");
    return tensors;
  }
  std::size_t next_payload() const { return next_payload_; }

 private:
  at::Tensor unpack_any() {
    const auto kind = header_.get<TensorKind>();
    if (kind == TensorKind::undefined) return {};
    if (kind == TensorKind::contiguous || kind == TensorKind::strided) return unpack_strided(kind);
    if (kind == TensorKind::coo) return unpack_coo();
    if (static_cast<int>(kind) < kTensorKinds) return unpack_compressed(kind);
    corrupt("a tensor of an unknown kind");
  }

  /// A part of a sparse tensor.
  at::Tensor unpack_part() {
    const auto kind = header_.get<TensorKind>();
    if (kind != TensorKind::contiguous && kind != TensorKind::strided) {
      corrupt("a part of a sparse tensor is not dense");
    }
    return unpack_strided(kind);
  }

  Sizes read_sizes(std::size_t count) {
    Sizes sizes(count);
    for (std::int64_t& size : sizes) {
      const std::uint64_t value = header_.get_varint();
      size = static_cast<std::int64_t>(value);
      if (size < 0) corrupt("a tensor's size or stride is out of range");
    }
    if (header_.failed()) corrupt("the header ends within a tensor");
    return sizes;
  }

  at::Tensor unpack_strided(TensorKind kind) {
    const auto dtype = header_.get<c10::ScalarType>();
    const std::size_t element_bytes = plain_size_bytes(dtype);
    if (element_bytes == 0) corrupt("a tensor of an unknown element type");
    const Sizes sizes = read_sizes(header_.get_count());
    const std::uint64_t size_bytes = multiply(elements(sizes), element_bytes);
    const bool strided = kind == TensorKind::strided;
    const Sizes strides = strided ? read_sizes(sizes.size()) : default_strides(sizes);
    if (size_bytes == 0) return at::empty_strided(sizes, strides, at::TensorOptions(dtype));
    require_dense(sizes, strides);
    const Payload& payload = take_payload(size_bytes);
    if (adoptable(payload)) return adopt(payload, sizes, strides, dtype);
    at::Tensor tensor = at::empty_strided(sizes, strides, at::TensorOptions(dtype));
    std::memcpy(tensor.mutable_data_ptr(), payload.bytes().data(), size_bytes);
    return tensor;
  }

  const Payload& take_payload(std::uint64_t size_bytes) {
    if (next_payload_ >= payloads_.size()) corrupt("a tensor's bytes are missing");
    const Payload& payload = payloads_[next_payload_++];
    if (payload.size_bytes() != size_bytes) corrupt("a tensor's sizes and bytes do not agree");
    return payload;
  }

  at::Tensor unpack_coo() {
    const bool coalesced = header_.get<std::uint8_t>() != 0;
    const Sizes sizes = read_sizes(header_.get_count());
    const at::Tensor indices = unpack_part();
    const at::Tensor values = unpack_part();
    elements(sizes);
    at::_validate_sparse_coo_tensor_args(indices, values, sizes, coalesced);
    return at::_sparse_coo_tensor_unsafe(indices, values, sizes, options(values, c10::kSparse),
                                         coalesced);
  }

  at::Tensor unpack_compressed(TensorKind kind) {
    const c10::Layout layout = kCompressedLayouts[static_cast<std::size_t>(kind) -
                                                  static_cast<std::size_t>(TensorKind::csr)];
    const Sizes sizes = read_sizes(header_.get_count());
    const at::Tensor compressed = unpack_part();
    const at::Tensor plain = unpack_part();
    const at::Tensor values = unpack_part();
    elements(sizes);
    at::_validate_sparse_compressed_tensor_args(compressed, plain, values, sizes, layout);
    return at::_sparse_compressed_tensor_unsafe(compressed, plain, values, sizes,
                                                options(values, layout));
  }

  static at::TensorOptions options(const at::Tensor& values, c10::Layout layout) {
    return values.options().layout(layout);
  }

  Reader& header_;
  std::span<const Payload> payloads_;
  std::size_t next_payload_;
};

Failure failure(std::string why) { return Failure{Code::corrupt, std::move(why), {}, 0}; }

}  // namespace

Result<std::vector<at::Tensor>> unpack_tensors(Reader& header, std::span<const Payload> payloads,
                                               std::size_t& next_payload) {
  const c10::AutoGradMode no_grad(false);
  try {
    TensorUnpacker unpacker(header, payloads, next_payload);
    std::vector<at::Tensor> tensors = unpacker.unpack_all();
    next_payload = unpacker.next_payload();
    return tensors;
  } catch (const Corrupt& problem) {
    return failure(problem.why);
  } catch (const c10::Error& error) {
    return failure(error.what_without_backtrace());
  }
}

}  // namespace rehearse::rpc
