#include "harness/units.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <optional>
#include <span>

#include "harness/text.hpp"

namespace rehearse::harness {

const char* const kDurationPattern = "^[0-9]+(\\.[0-9]+)?(ns|us|ms|s|min|h)$";
const char* const kBandwidthPattern = "^[0-9]+(\\.[0-9]+)?[KMG]?[bB]ps$";
const char* const kSpeedPattern = "^[0-9]+(\\.[0-9]+)?[KMGT]?f$";

namespace {

__extension__ using Wide = unsigned __int128;

struct Unit {
  std::string_view name;
  std::int64_t factor;  ///< in base units
};

struct Dimension {
  std::string_view what;     ///< "a duration"
  std::string_view example;  ///< "250ms"
  std::string_view finest;   ///< the base unit: "a nanosecond"
  std::span<const Unit> units;
};

constexpr std::int64_t kKilo = 1'000, kMega = 1'000'000, kGiga = 1'000'000'000;
constexpr std::array kDurations = {Unit{"ns", 1},           Unit{"us", kKilo},
                                   Unit{"ms", kMega},       Unit{"s", kGiga},
                                   Unit{"min", 60 * kGiga}, Unit{"h", 3600 * kGiga}};
constexpr std::array kSizes = {
    Unit{"B", 1},           Unit{"KB", kKilo},      Unit{"MB", kMega},     Unit{"GB", kGiga},
    Unit{"KiB", 1LL << 10}, Unit{"MiB", 1LL << 20}, Unit{"GiB", 1LL << 30}};
constexpr std::array kBandwidths = {
    Unit{"bps", 1}, Unit{"Kbps", kKilo},     Unit{"Mbps", kMega},     Unit{"Gbps", kGiga},
    Unit{"Bps", 8}, Unit{"KBps", 8 * kKilo}, Unit{"MBps", 8 * kMega}, Unit{"GBps", 8 * kGiga}};
constexpr std::array kSpeeds = {Unit{"f", 1}, Unit{"Kf", kKilo}, Unit{"Mf", kMega},
                                Unit{"Gf", kGiga}, Unit{"Tf", kGiga* kKilo}};

constexpr Dimension kDuration = {"a duration", "250ms", "a nanosecond", kDurations};
constexpr Dimension kSize = {"a size", "64MiB", "a byte", kSizes};
constexpr Dimension kBandwidth = {"a bandwidth", "10Gbps", "a bit per second", kBandwidths};
constexpr Dimension kSpeed = {"a speed in flop/s", "50Gf", "one operation per second", kSpeeds};

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

/// digits [. digits], as `digits` scaled by 10^-`decimals`.
struct Decimal {
  Wide digits = 0;
  int decimals = 0;
  std::string_view rest;
};

std::optional<Decimal> parse_decimal(std::string_view text) {
  constexpr int kMostDigits = 19;
  Decimal decimal;
  std::size_t at = 0;
  int seen = 0;
  const auto take_digits = [&] {
    const std::size_t first = at;
    for (; at < text.size() && is_digit(text[at]) && seen <= kMostDigits; ++at, ++seen) {
      decimal.digits = decimal.digits * 10 + static_cast<Wide>(text[at] - '0');
    }
    return static_cast<int>(at - first);
  };
  if (take_digits() == 0) return std::nullopt;
  if (at < text.size() && text[at] == '.') {
    ++at;
    decimal.decimals = take_digits();
    if (decimal.decimals == 0) return std::nullopt;
  }
  if (seen > kMostDigits) return std::nullopt;
  decimal.rest = text.substr(at);
  return decimal;
}

Failure refused(std::string_view text, const Dimension& dimension, std::string_view why) {
  std::string units;
  for (const Unit& unit : dimension.units)
    units += (units.empty() ? "" : ", ") + std::string(unit.name);
  return {Code::bad_argument,
          fmt::format("{} {}, expected {} such as \"{}\" (units: {})", in_quotes(text), why,
                      dimension.what, dimension.example, units),
          {},
          0};
}

Result<std::int64_t> parse_quantity(std::string_view text, const Dimension& dimension) {
  const auto decimal = parse_decimal(text);
  if (!decimal) return refused(text, dimension, "is no number with a unit");
  const Unit* unit = nullptr;
  for (const Unit& candidate : dimension.units) {
    if (candidate.name == decimal->rest) unit = &candidate;
  }
  if (!unit && decimal->rest.empty()) return refused(text, dimension, "has no unit");
  if (!unit) return refused(text, dimension, "has an unknown unit");
  Wide value = decimal->digits * static_cast<Wide>(unit->factor);
  for (int i = 0; i < decimal->decimals; ++i) {
    if (value % 10 != 0) {
      return refused(text, dimension, fmt::format("is finer than {}", dimension.finest));
    }
    value /= 10;
  }
  if (value > static_cast<Wide>(std::numeric_limits<std::int64_t>::max())) {
    return refused(text, dimension, "is too large");
  }
  return static_cast<std::int64_t>(value);
}

std::string scaled(std::int64_t value, std::int64_t base, std::span<const std::string_view> units) {
  double scaled_value = static_cast<double>(value);
  std::size_t at = 0;
  for (; at + 1 < units.size() && scaled_value >= static_cast<double>(base); ++at) {
    scaled_value /= static_cast<double>(base);
  }
  return fmt::format("{:.6g}{}", scaled_value, units[at]);
}

}  // namespace

Result<Duration> parse_duration(std::string_view text) {
  auto count = parse_quantity(text, kDuration);
  if (!count.ok()) return count.failure();
  return Duration(count.value());
}

Result<std::int64_t> parse_size(std::string_view text) { return parse_quantity(text, kSize); }
Result<std::int64_t> parse_bandwidth(std::string_view text) {
  return parse_quantity(text, kBandwidth);
}
Result<std::int64_t> parse_speed(std::string_view text) { return parse_quantity(text, kSpeed); }

std::string format_size(std::int64_t size_bytes) {
  constexpr std::array<std::string_view, 4> units = {"B", "KiB", "MiB", "GiB"};
  return scaled(size_bytes, 1024, units);
}

std::string format_speed(std::int64_t flops_per_s) {
  constexpr std::array<std::string_view, 5> units = {"f", "Kf", "Mf", "Gf", "Tf"};
  return scaled(flops_per_s, kKilo, units);
}

std::string format_bandwidth(std::int64_t bits_per_s) {
  constexpr std::array<std::string_view, 4> bits = {"bps", "Kbps", "Mbps", "Gbps"};
  constexpr std::array<std::string_view, 4> bytes = {"Bps", "KBps", "MBps", "GBps"};
  if (bits_per_s < 8) return scaled(bits_per_s, kKilo, bits);
  const std::string as_bytes = bits_per_s % 8 == 0
                                   ? scaled(bits_per_s / 8, kKilo, bytes)
                                   : fmt::format("{:.6g}Bps", static_cast<double>(bits_per_s) / 8);
  return fmt::format("{} ({})", scaled(bits_per_s, kKilo, bits), as_bytes);
}

}  // namespace rehearse::harness
