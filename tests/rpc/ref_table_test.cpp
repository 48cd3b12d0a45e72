// The rule of remote references: a value lives as long as somebody can use it, and no longer.

#include <gtest/gtest.h>

#include <chrono>
#include <iostream>

#include "tests/rpc/small_world.hpp"

namespace rehearse::rpc {
namespace {

using Do = Step::Do;
constexpr std::uint16_t kA = 0, kB = 1, kC = 2;

struct Case {
  const char* name;
  std::uint16_t workers;
  std::vector<Step> program;
  bool many = false;  ///< so many orders that only those without faults are explored
};

std::ostream& operator<<(std::ostream& out, const Case& of) { return out << of.name; }

std::vector<Case> cases() {
  return {
      {"MadeElsewhereAndDroppedAtOnce", 2, {{Do::mint, kA, "a", kB}, {Do::drop, kA, "a"}}},
      {"GivenUpBeforeItIsMade",
       2,
       {{Do::mint, kA, "a", kB}, {Do::give_up, kA, "a"}, {Do::drop, kA, "a"}}},
      {"GivenUpAfterItWasPassedOn",
       3,
       {{Do::mint, kA, "a", kB},
        {Do::pass, kA, "a", kC, "c"},
        {Do::give_up, kA, "a"},
        {Do::drop, kA, "a"},
        {Do::drop, kC, "c"}},
       true},
      {"PassedToItsOwner",
       2,
       {{Do::mint, kA, "a", kB},
        {Do::pass, kA, "a", kB, "b"},
        {Do::drop, kA, "a"},
        {Do::drop, kB, "b"}}},
      {"PassedToItself",
       2,
       {{Do::mint, kA, "a", kB},
        {Do::pass, kA, "a", kA, "again"},
        {Do::drop, kA, "a"},
        {Do::drop, kA, "again"}}},
      {"AskedOfItselfAndPassedOnAtOnce",
       2,
       {{Do::mint, kA, "a", kA},
        {Do::pass, kA, "a", kB, "b"},
        {Do::pass, kA, "a", kA, "again"},
        {Do::drop, kA, "a"},
        {Do::drop, kA, "again"},
        {Do::drop, kB, "b"}}},
      {"PassedToAThirdWorker",
       3,
       {{Do::mint, kA, "a", kB},
        {Do::pass, kA, "a", kC, "c"},
        {Do::drop, kA, "a"},
        {Do::drop, kC, "c"}}},
      {"PassedByItsOwnerAndPassedOn",
       3,
       {{Do::own, kB, "b"},
        {Do::pass, kB, "b", kA, "a"},
        {Do::drop, kB, "b"},
        {Do::pass, kA, "a", kC, "c"},
        {Do::drop, kA, "a"},
        {Do::drop, kC, "c"}}},
      {"PassedOnBeforeItIsConfirmed",
       3,
       {{Do::own, kB, "b"},
        {Do::pass, kB, "b", kA, "a"},
        {Do::drop, kB, "b"},
        {Do::pass, kA, "a", kC, "c"},
        {Do::drop, kA, "a"},
        {Do::pass, kC, "c", kB, "back"},
        {Do::drop, kC, "c"},
        {Do::drop, kB, "back"}},
       true},
  };
}

class EveryOrder : public testing::TestWithParam<Case> {
 protected:
  void expect_no_violation(const SmallWorld::Options& options) {
    const auto begin =
        std::chrono::steady_clock::now();  // tidy: banned-name: says how long it took
    const Exploration found = SmallWorld(GetParam().workers, GetParam().program, options).explore();
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - begin;  // tidy: banned-name: the same
    EXPECT_EQ(found.violation, "");
    std::cout << GetParam().name << ": " << found.orders << " orders, " << took.count() << " s\n";
  }
};
INSTANTIATE_TEST_SUITE_P(OfSmallWorlds, EveryOrder, testing::ValuesIn(cases()),
                         [](const auto& which) { return std::string(which.param.name); });

// All interleavings of deliveries and program steps, messages overtaking each other: at no point is
// a value freed that somebody holds or that is under way to somebody; at the end all are freed
// once, and no table remembers anything.
TEST_P(EveryOrder, FreesAValueWhenTheLastReferenceIsGoneAndNotBefore) { expect_no_violation({}); }

// The same, with one message between tables arriving a second time, at any later moment.
TEST_P(EveryOrder, IsRightWhenAMessageArrivesTwice) {
  if (!GetParam().many) expect_no_violation({.repeats = 1});
}

// One worker dies at any point of any order: nobody who has heard from the owner loses the value,
// and the survivors are left with nothing.
TEST_P(EveryOrder, LeavesNothingBehindWhenAWorkerDies) {
  if (GetParam().many) return;
  for (std::uint16_t dead = 0; dead < GetParam().workers; ++dead)
    expect_no_violation({.dies = dead});
}

}  // namespace
}  // namespace rehearse::rpc
