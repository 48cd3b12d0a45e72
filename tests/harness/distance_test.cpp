#include "harness/distance.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "runtime/world/event.hpp"

namespace rehearse::harness {
namespace {

template <class T>
Bytes values(Element element, std::initializer_list<T> numbers) {
  Bytes bytes{static_cast<std::byte>(element)};
  for (const T& number : numbers) {
    const auto raw = std::as_bytes(std::span(&number, 1));
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  }
  return bytes;
}
Bytes floats(std::initializer_list<float> numbers) { return values(Element::float32, numbers); }
Bytes doubles(std::initializer_list<double> numbers) { return values(Element::float64, numbers); }

TEST(Distance, NeighboursAreOneApartAcrossZeroToo) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(distance(floats({1.0f, 2.0f}), floats({1.0f, 2.0f}))->max_ulp, 0);
  EXPECT_EQ(distance(floats({std::nextafter(1.0f, 2.0f)}), floats({1.0f}))->max_ulp, 1);
  EXPECT_EQ(distance(floats({tiny}), floats({-tiny}))->max_ulp, 2);
  EXPECT_EQ(distance(floats({0.0f}), floats({-0.0f}))->max_ulp, 0);
  EXPECT_EQ(distance(doubles({std::nextafter(1e300, 0)}), doubles({1e300}))->max_ulp, 1);
}

TEST(Distance, HalfTypesHaveNeighboursOfTheirOwn) {
  using Bits = std::uint16_t;
  const auto halves = [](Element element, Bits bits) { return values<Bits>(element, {bits}); };
  EXPECT_EQ(distance(halves(Element::float16, 0x3c01), halves(Element::float16, 0x3c00))->max_ulp,
            1);
  EXPECT_EQ(distance(halves(Element::bfloat16, 0x3f82), halves(Element::bfloat16, 0x3f80))->max_ulp,
            2);
  EXPECT_DOUBLE_EQ(
      distance(halves(Element::float16, 0x3c01), halves(Element::float16, 0x3c00))->relative,
      1.0 / 1024)
      << "1 + 2^-10 against 1";
  EXPECT_DOUBLE_EQ(
      distance(halves(Element::bfloat16, 0x3f81), halves(Element::bfloat16, 0x3f80))->relative,
      1.0 / 128);
}

TEST(Distance, RelativeIsOfTheLargestElementOfTheReference) {
  const auto apart = distance(doubles({100.0, 2.0}), doubles({100.0, 1.0}));
  EXPECT_DOUBLE_EQ(apart->relative, 0.01);
  EXPECT_EQ(apart->index, 1);
  EXPECT_EQ(distance(doubles({1.0}), doubles({0.0}))->relative, HUGE_VAL);
}

// No bound excuses a NaN where there should be none, or a number where there should be a NaN.
TEST(Distance, NanIsFarFromNumbersAndNotFromNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& apart :
       {distance(floats({nan}), floats({1.0f})), distance(floats({1.0f}), floats({nan}))}) {
    EXPECT_TRUE(is_beyond({Closeness::Kind::max_ulp, 1'000'000'000, 0}, *apart));
    EXPECT_TRUE(is_beyond({Closeness::Kind::relative, 0, 1e30}, *apart));
  }
  EXPECT_EQ(distance(floats({nan}), floats({-nan}))->max_ulp, 0);
  const float infinite = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(is_beyond({Closeness::Kind::relative, 0, 1e30},
                        *distance(floats({infinite}), floats({1.0f}))));
}

TEST(Distance, IsUnknownBetweenOtherTypesAndSizes) {
  EXPECT_FALSE(distance({}, {}));
  EXPECT_FALSE(distance(floats({1.0f}), floats({1.0f, 2.0f})));
  EXPECT_FALSE(distance(floats({1.0f, 1.0f}), doubles({1.0})));
}

// Against the standard library's idea of the next number.
RC_GTEST_PROP(DistanceProperty, CountsTheStepsOfNextafter, ()) {
  const auto start = std::bit_cast<float>(*rc::gen::inRange<std::uint32_t>(0, 0x7f000000));
  const auto steps = *rc::gen::inRange(0, 50);
  float end = *rc::gen::element(start, -start);
  const float from = end;
  for (int i = 0; i < steps; ++i) end = std::nextafter(end, std::numeric_limits<float>::infinity());
  RC_ASSERT(distance(floats({end}), floats({from}))->max_ulp == steps);
  RC_ASSERT(distance(floats({from}), floats({end}))->max_ulp == steps);
}

}  // namespace
}  // namespace rehearse::harness
