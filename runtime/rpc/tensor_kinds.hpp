#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Layout.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace rehearse::rpc {

/// How one tensor is written. Values are part of the wire format.
enum class TensorKind : std::uint8_t {
  undefined,
  contiguous,  ///< dtype, sizes, bytes
  strided,     ///< dtype, sizes, strides, bytes
  coo,         ///< coalesced, sizes, indices, values
  csr,         ///< the compressed ones: sizes, compressed indices, plain indices, values
  csc,
  bsr,
  bsc,
};
inline constexpr int kTensorKinds = static_cast<int>(TensorKind::bsc) + 1;

/// The compressed sparse layouts, kind by kind from `csr` on.
inline constexpr std::array kCompressedLayouts{c10::kSparseCsr, c10::kSparseCsc, c10::kSparseBsr,
                                               c10::kSparseBsc};

// clang-format off
/// Bytes of an element by dtype number; the numbers are those of torch's serialization format.
inline constexpr std::array kElementSizesBytes{
#define REHEARSE_ELEMENT(ctype, name) std::uint8_t{sizeof(ctype)},
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS(REHEARSE_ELEMENT)
#undef REHEARSE_ELEMENT
};
// clang-format on

/// What a tensor that has adopted the memory of a payload does at its end.
inline void drop_adopted(void* owner) { delete static_cast<std::shared_ptr<const void>*>(owner); }

/// Memory that a tensor has adopted from a payload, which nobody else holds.
inline bool is_adopted(const c10::DataPtr& memory) {
  return memory.get_deleter() == &drop_adopted &&
         static_cast<const std::shared_ptr<const void>*>(memory.get_context())->use_count() == 1;
}

/// The size of an element in bytes, or 0 if `dtype` has no plain storage: quantized, or unknown.
inline std::size_t plain_size_bytes(c10::ScalarType dtype) {
  const auto number = static_cast<std::size_t>(static_cast<std::uint8_t>(dtype));
  if (number >= kElementSizesBytes.size() || c10::isQIntType(dtype)) return 0;
  return kElementSizesBytes[number];
}

}  // namespace rehearse::rpc
