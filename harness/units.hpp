#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/result.hpp"
#include "runtime/base/time.hpp"

namespace rehearse::harness {

/// Quantities of scenario files: a decimal number without sign or exponent, and a unit, without a
/// space: "250ms", "1.5s", "10Gbps", "64MiB". Arithmetic is exact; what is finer than the base
/// unit or does not fit in 63 bits is refused. All fail with `bad_argument` and a message that says
/// what was expected.

/// ns, us, ms, s, min, h; in nanoseconds.
Result<Duration> parse_duration(std::string_view text);

/// B, KB, MB, GB (powers of 1000), KiB, MiB, GiB (of 1024); in bytes.
Result<std::int64_t> parse_size(std::string_view text);

/// bps, Kbps, Mbps, Gbps are bits; Bps, KBps, MBps, GBps are bytes; in bits per second.
Result<std::int64_t> parse_bandwidth(std::string_view text);

/// f, Kf, Mf, Gf, Tf: floating point operations per second.
Result<std::int64_t> parse_speed(std::string_view text);

std::string format_size(std::int64_t size_bytes);
std::string format_speed(std::int64_t flops_per_s);
/// Both ways of saying it, since b and B are easily mistaken: "10Gbps (1.25GBps)".
std::string format_bandwidth(std::int64_t bits_per_s);

/// Patterns that these texts match, for the schema.
extern const char* const kDurationPattern;
extern const char* const kBandwidthPattern;
extern const char* const kSpeedPattern;

}  // namespace rehearse::harness
