#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/virtual/job_fixture.hpp"

namespace rehearse::virtual_world {
namespace {

TEST(ConstantPhysics, AMessageTakesLatencyAndItsBytes) {
  ConstantPhysics physics(plain_physics());
  EXPECT_EQ(physics.small_arrival(0, 1, 1000, Time(1ms)), Time(1ms + 10us + 1us));
  EXPECT_EQ(physics.duration(0, {.flops = 3, .bytes = 0}), 3ns);
  EXPECT_EQ(physics.duration(0, {.flops = 3, .bytes = 200}), 10ns) << "memory is the bottleneck";
}

// Completions come in the order of their times, those of one instant together and by id, and never
// beyond `until`.
RC_GTEST_PROP(ConstantPhysics, CompletionsComeInOrder, ()) {
  ConstantPhysics physics(plain_physics());
  struct Started {
    Time end;
    ActivityId id;
  };
  std::vector<Started> expected;
  const auto sizes = *rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange(1, 5));
  for (std::size_t size : sizes) {
    const Time end = physics.small_arrival(0, 1, size, Time{});
    expected.push_back({end, physics.start_transfer(0, 1, size, Time{})});
  }
  std::stable_sort(expected.begin(), expected.end(),
                   [](const Started& a, const Started& b) { return a.end < b.end; });
  std::vector<ActivityId> got;
  Time now{};
  while (got.size() < expected.size()) {
    std::vector<Completion> completions;
    const Time until = now + Duration(*rc::gen::inRange(1, 30'000));
    now = physics.next(until, completions);
    RC_ASSERT(now <= until);
    for (const Completion& completion : completions) got.push_back(completion.activity);
    for (std::size_t i = 0; i < got.size(); ++i) {
      RC_ASSERT(got[i] == expected[i].id);
      RC_ASSERT(expected[i].end <= now);
    }
  }
}

}  // namespace
}  // namespace rehearse::virtual_world
