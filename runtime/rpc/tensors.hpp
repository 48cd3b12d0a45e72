#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/codec.hpp"
#include "runtime/base/result.hpp"
#include "runtime/world/buffers.hpp"

namespace rehearse::rpc {

/// Fails with `bad_argument` for what has no plain bytes on the CPU, saying which tensor and why
/// (another device, quantized, nested, mkldnn, named, inside a functorch transform).
Status check_tensors(const std::vector<at::Tensor>& tensors);

/// Writes what the tensors are to `header` and appends their bytes to `payloads`. The receiver gets
/// the values they have now: later writes on either side are not seen by the other. What crosses:
/// dtype, sizes, values, and the strides of dense tensors (another layout takes another path in
/// BLAS and gives other bits; tensors with gaps or overlaps become contiguous, so a view sends only
/// its own elements). Conjugate and negative views are resolved, zero tensors are materialised.
/// Sparse tensors keep their layout; of COO ones the order of entries and the coalesced flag too.
/// An undefined tensor arrives undefined. `requires_grad`, history, names and subclasses do not
/// cross. Records no autograd nodes.
///
/// Fails as `check_tensors` does; then `header` and `payloads` are as before.
Status pack_tensors(const std::vector<at::Tensor>& tensors, Writer& header,
                    std::vector<Payload>& payloads);

/// The same for tensors that the caller gives away. Memory that nobody else holds (no other tensor,
/// view or graph; allocated by torch, or adopted from a message) becomes the payload without a
/// copy; the rest is copied to memory of `buffers`. REQUIRES: no raw pointer into them is written
/// through afterwards.
Status pack_tensors(std::vector<at::Tensor>&& tensors, Writer& header,
                    std::vector<Payload>& payloads, Buffers& buffers);

/// Reads what `pack_tensors` wrote, taking payloads from index `next_payload` on and advancing it.
/// Trusts neither header nor payloads: fails with `corrupt` when they do not agree.
///
/// The tensors own their memory: that of a payload whose only holder is the element of `payloads`
/// (adopted; drop the message then, do not unpack it twice), else a copy.
/// REQUIRES: memory of a payload that has only one holder may be written to.
Result<std::vector<at::Tensor>> unpack_tensors(Reader& header, std::span<const Payload> payloads,
                                               std::size_t& next_payload);

}  // namespace rehearse::rpc
