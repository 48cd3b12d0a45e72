// Numbers kept as ranges.

#include "runtime/base/number_set.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace rehearse {
namespace {

// Against std::set: the same members, in as many ranges as there are runs of neighbours.
RC_GTEST_PROP(NumberSet, HoldsWhatWasAddedInAsFewRangesAsThereAre,
              (const std::vector<std::pair<std::uint8_t, std::uint8_t>>& added)) {
  NumberSet ranges;
  std::set<std::uint32_t> numbers;
  for (const auto& [first, length] : added) {
    const std::uint32_t last = first + length % 5U;
    ranges.add(first, last);
    for (std::uint32_t number = first; number <= last; ++number) numbers.insert(number);
  }
  std::size_t runs = 0;
  for (std::uint32_t number = 0; number < 300; ++number) {
    RC_ASSERT(ranges.contains(number) == numbers.contains(number));
    runs += numbers.contains(number) && !(number > 0 && numbers.contains(number - 1));
  }
  RC_ASSERT(ranges.ranges() == runs);
}

TEST(NumberSet, TakesMemoryForItsGapsNotForItsNumbers) {
  NumberSet set;
  for (std::uint32_t number = 2; number < 10'000; ++number) set.add(number);
  EXPECT_EQ(set.ranges(), 1U);
  EXPECT_FALSE(set.contains(1));
  set.add(1);
  EXPECT_EQ(set.ranges(), 1U);
}

}  // namespace
}  // namespace rehearse
