#pragma once

#include "runtime/base/result.hpp"
#include "runtime/real/process.hpp"

namespace rehearse::real {

Bytes encode_spec(const ProcessOptions& options);
/// Fails with `cannot_start` if `bytes` are not what this version writes.
Result<ProcessOptions> decode_spec(std::span<const std::byte> bytes);

/// A descriptor without a name that a child inherits and `read_spec` reads.
Result<Descriptor> spec_descriptor(const ProcessOptions& options);
/// Takes `descriptor` over. The same program must have written it.
Result<ProcessOptions> read_spec(int descriptor);

}  // namespace rehearse::real
