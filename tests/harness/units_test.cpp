#include "harness/units.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <regex>

namespace rehearse::harness {
namespace {

using std::chrono::nanoseconds;

// Decimal arithmetic is exact: no value goes through a double.
TEST(Units, DurationsAreExact) {
  EXPECT_EQ(parse_duration("250ms").value(), std::chrono::milliseconds(250));
  EXPECT_EQ(parse_duration("1.5s").value(), std::chrono::milliseconds(1500));
  EXPECT_EQ(parse_duration("0.1us").value(), nanoseconds(100));
  EXPECT_EQ(parse_duration("2min").value(), std::chrono::minutes(2));
  EXPECT_EQ(parse_duration("1h").value(), std::chrono::hours(1));
  EXPECT_EQ(parse_duration("9007199254.740993s").value(), nanoseconds(9007199254740993000));
}

TEST(Units, SmallBIsBitsAndLargeBIsBytes) {
  EXPECT_EQ(parse_bandwidth("10Gbps").value(), 10'000'000'000);
  EXPECT_EQ(parse_bandwidth("10GBps").value(), 80'000'000'000);
  EXPECT_EQ(parse_size("64MiB").value(), 64 << 20);
  EXPECT_EQ(parse_size("1.5KiB").value(), 1536);
  EXPECT_EQ(parse_size("64MB").value(), 64'000'000);
  EXPECT_EQ(parse_speed("50Gf").value(), 50'000'000'000);
  EXPECT_EQ(parse_speed("1.5Tf").value(), 1'500'000'000'000);
}

TEST(Units, BandwidthIsShownBothWays) {
  EXPECT_EQ(format_bandwidth(10'000'000'000), "10Gbps (1.25GBps)");
  EXPECT_EQ(format_bandwidth(12), "12bps (1.5Bps)");
  EXPECT_EQ(format_size(64 << 20), "64MiB");
  EXPECT_EQ(format_speed(50'000'000'000), "50Gf");
}

TEST(Units, RefusalsSayWhatWasExpected) {
  for (const char* text : {"250", "", "ms", "-1s", "1e3s", "1 s", "1.s", ".5s", "1sec", "0.5ns",
                           "99999999999h", "99999999999999999999999999999s"}) {
    const auto parsed = parse_duration(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.failure().message.find("expected a duration such as \"250ms\""),
              std::string::npos);
  }
}

// What is printed of a duration can be read back where it was exact.
RC_GTEST_PROP(UnitsProperty, WholeNumbersComeBack, ()) {
  const auto count = *rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000);
  RC_ASSERT(parse_duration(std::to_string(count) + "us").value() ==
            std::chrono::microseconds(count));
  RC_ASSERT(parse_bandwidth(std::to_string(count) + "KBps").value() == count * 8000);
}

// The patterns of the schema accept no text that the parser refuses for its form, nor the reverse.
RC_GTEST_PROP(UnitsProperty, PatternsAgreeWithTheParser, ()) {
  const auto text =
      *rc::gen::container<std::string>(rc::gen::elementOf(std::string("0159.nums hBGKbp")));
  const bool matches = std::regex_match(text, std::regex(kDurationPattern));
  const auto parsed = parse_duration(text);
  if (parsed.ok()) RC_ASSERT(matches);
  if (!matches) RC_ASSERT(!parsed.ok());
  RC_ASSERT(parse_bandwidth(text).ok() <= std::regex_match(text, std::regex(kBandwidthPattern)));
}

}  // namespace
}  // namespace rehearse::harness
