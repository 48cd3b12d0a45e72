#include "runtime/autograd/segments.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace rehearse::autograd {
namespace {

using Path = std::shared_ptr<const CallPath>;

Path path(CallPath elements) { return std::make_shared<const CallPath>(std::move(elements)); }

class SegmentsTest : public ::testing::Test {
 protected:
  void record(const Path& of, std::uint32_t issued, std::uint64_t start, std::uint64_t end) {
    segments_.open(start, of, issued);
    segments_.close(end);
  }

  Segments segments_;
};

// Code before call k, the callee, code after call k: in this order, whenever each of them ran.
TEST_F(SegmentsTest, CalleesStandBetweenTheCodeAroundTheirCall) {
  const Path root = path({1});
  record(root, 0, 10, 12);
  record(root, 1, 12, 15);  // after call 0 was issued
  record(root, 2, 15, 16);
  record(path({1, 3}), 0, 20, 22);  // call 1 arrived first
  record(path({1, 1}), 0, 22, 25);
  record(path({1, 1, 1}), 0, 25, 27);
  record(path({1, 1}), 1, 27, 29);
  segments_.freeze();
  const std::vector<std::uint64_t> in_order{10, 22, 25, 27, 12, 20, 15};
  for (std::uint32_t i = 0; i < in_order.size(); ++i) {
    EXPECT_EQ(segments_.rank(in_order[i]), i + 1) << in_order[i];
  }
}

TEST_F(SegmentsTest, TheRootsWorkerComesFirst) {
  record(path({5}), 0, 1, 2);
  record(path({3, 1, 1}), 9, 2, 3);
  segments_.freeze();
  EXPECT_LT(segments_.rank(2), segments_.rank(1));
}

// A wait ends an interval, not the segment: sequence numbers decide inside it.
TEST_F(SegmentsTest, IntervalsOfOneSegmentShareARank) {
  const Path root = path({1});
  record(root, 1, 1, 4);
  record(path({1, 1}), 0, 4, 6);
  record(path({1}), 1, 6, 8);  // an equal path in another object
  segments_.freeze();
  EXPECT_EQ(segments_.rank(2), segments_.rank(7));
  EXPECT_LT(segments_.rank(5), segments_.rank(2));
}

// In a virtual world other workers count in between.
TEST_F(SegmentsTest, NumbersOutsideEveryIntervalHaveRankZero) {
  record(path({1}), 0, 10, 12);
  record(path({1}), 1, 20, 22);
  segments_.freeze();
  for (const std::uint64_t outside : {0, 9, 12, 19, 22, 1000}) {
    EXPECT_EQ(segments_.rank(outside), 0u) << outside;
  }
  EXPECT_EQ(segments_.rank(11), 1u);
  EXPECT_EQ(segments_.rank(20), 2u);
}

TEST_F(SegmentsTest, EmptyIntervalsTakeNoSpace) {
  record(path({1}), 0, 10, 10);
  EXPECT_EQ(segments_.size(), 0u);
  segments_.freeze();
  EXPECT_EQ(segments_.rank(10), 0u);
}

TEST_F(SegmentsTest, PartsOrderInsideAPlace) {
  segments_.open(1, path({1, 1}), 7, 2);
  segments_.close(2);
  segments_.open(2, path({1, 1}), 7, 0);
  segments_.close(3);
  segments_.freeze();
  EXPECT_LT(segments_.rank(2), segments_.rank(1));
}

using SegmentsDeathTest = SegmentsTest;

TEST_F(SegmentsDeathTest, RefusesRanksWhileSomethingIsNotSorted) {
  record(path({1}), 0, 10, 12);
  EXPECT_DEATH(segments_.rank(11), "freeze");
}

TEST_F(SegmentsDeathTest, RefusesNumbersThatGoBack) {
  record(path({1}), 0, 10, 12);
  EXPECT_DEATH(record(path({1}), 1, 11, 13), "went back");
}

// The model spells every key out and sorts; segments are frozen at random times in between.
RC_GTEST_PROP(Segments, RanksAreThoseOfTheSortedKeys, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(1, 40);
  Segments segments;
  std::vector<CallPath> keys;
  for (std::uint64_t i = 0; i < count; ++i) {
    auto calls = *rc::gen::container<CallPath>(rc::gen::element(1u, 3u, 5u));
    if (calls.size() > 4) calls.resize(4);
    calls.insert(calls.begin(), *rc::gen::element(1u, 3u));
    const auto issued = *rc::gen::inRange<std::uint32_t>(0, 4);
    segments.open(10 * i, path(calls), issued);
    segments.close(10 * i + 5);
    calls.push_back(2 * issued);
    keys.push_back(std::move(calls));
    if (*rc::gen::arbitrary<bool>()) segments.freeze();
  }
  segments.freeze();
  std::vector<CallPath> sorted = keys;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto place = std::lower_bound(sorted.begin(), sorted.end(), keys[i]);
    RC_ASSERT(segments.rank(10 * i + 2) == place - sorted.begin() + 1);
    RC_ASSERT(segments.rank(10 * i + 7) == 0u);
  }
}

}  // namespace
}  // namespace rehearse::autograd
