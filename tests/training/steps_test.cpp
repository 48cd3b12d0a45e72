// Steps of several trainers at several owners: whatever the order of messages and whoever dies, a
// step is in place at all owners that live or at none, and none waits for ever.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

#include "runtime/base/random.hpp"
#include "tests/training/step_network.hpp"

namespace rehearse::training {
namespace {

using Kind = StepNetwork::Choice::Kind;

bool is_fault(const StepNetwork::Choice& choice) {
  return choice.kind == Kind::kill || choice.kind == Kind::refuse || choice.dies_after >= 0;
}

/// Every order of everything that can happen, each state once.
class Exhaustive {
 public:
  explicit Exhaustive(const StepNetwork& start) { left_.push_back(start); }

  void run() {
    while (!left_.empty() && wrong_.empty()) {
      const auto [network, fresh] = seen_.insert(std::move(left_.back()));
      left_.pop_back();
      if (fresh) expand(*network);
    }
  }
  const std::string& wrong() const { return wrong_; }
  void print() const { fmt::print("{} states, {} ends\n", seen_.size(), ends_); }
  int most_attempts() const { return most_attempts_; }

 private:
  void expand(const StepNetwork& network) {
    wrong_ = network.wrong();
    most_attempts_ = std::max(most_attempts_, network.attempts());
    bool at_end = true;
    for (const auto& choice : network.choices()) {
      if (!is_fault(choice)) at_end = false;
      StepNetwork next = network;
      next.take(choice);
      left_.push_back(std::move(next));
    }
    if (!at_end || !wrong_.empty()) return;
    ++ends_;
    wrong_ = network.wrong_end();
  }

  std::vector<StepNetwork> left_;
  std::set<StepNetwork> seen_;
  std::string wrong_;
  std::size_t ends_ = 0;
  int most_attempts_ = 0;
};

// Workers 0 and 1 train, 2 and 3 own.
const std::vector<Script> kTwoByTwo = {{{2, 3}}, {{2, 3}}, {}, {}};

// Two steps that cross at two owners, in every order: both are done. The younger one may have to
// give way once at each owner.
TEST(Steps, OfTwoTrainersAtTwoOwnersNeverWaitForEachOther) {
  Exhaustive all(StepNetwork(kTwoByTwo, 0, {}, 0));
  all.run();
  EXPECT_EQ(all.wrong(), "");
  EXPECT_EQ(all.most_attempts(), 4);
  all.print();
}

TEST(Steps, OfTwoTrainersAreAllOrNothingWhereverOneWorkerDies) {
  Exhaustive all(StepNetwork(kTwoByTwo, 1, {0, 1, 2}, 0));
  all.run();
  EXPECT_EQ(all.wrong(), "");
  all.print();
}

// Worker 0 trains, workers 1 to 3 own: two may die, at any moments.
TEST(Steps, OfOneTrainerAreAllOrNothingWhereverTwoWorkersDie) {
  Exhaustive all(StepNetwork({{{1, 2, 3}}, {}, {}, {}}, 2, {0, 1, 2}, 0));
  all.run();
  EXPECT_EQ(all.wrong(), "");
  all.print();
}

// An owner that cannot prepare leaves no step anywhere, and the other trainer's goes through.
TEST(Steps, ThatAnOwnerRefusesAreInPlaceNowhere) {
  Exhaustive all(StepNetwork(kTwoByTwo, 0, {}, 1));
  all.run();
  EXPECT_EQ(all.wrong(), "");
  all.print();
}

std::vector<Script> any_scripts(int workers) {
  std::vector<Script> scripts;
  for (int trainer = 0; trainer < workers; ++trainer) {
    Script script(static_cast<std::size_t>(*rc::gen::inRange(1, 4)));
    for (auto& owners : script) {
      const int chosen = *rc::gen::inRange(1, 1 << workers);
      for (int worker = 0; worker < workers; ++worker) {
        if (chosen >> worker & 1) owners.push_back(static_cast<WorkerId>(worker));
      }
    }
    scripts.push_back(script);
  }
  return scripts;
}

// Kills and refusals are rare, so that they strike at all stages.
StepNetwork run_at_random(StepNetwork network, Random& random) {
  for (;;) {
    const auto choices = network.choices();
    std::vector<StepNetwork::Choice> likely;
    for (const auto& choice : choices) {
      const bool rare = is_fault(choice);
      if (!rare || random.chance(0.01)) likely.push_back(choice);
    }
    const bool over = std::ranges::all_of(choices, is_fault);
    if (over) return network;
    if (!likely.empty()) network.take(likely[random.below(likely.size())]);
  }
}

// Up to five workers that train, own, or both, at random; up to two die and one prepare fails.
RC_GTEST_PROP(Steps, OfManyAreAllOrNothingInOneOrderEverywhere, ()) {
  const int workers = *rc::gen::inRange(2, 6);
  const int kills = *rc::gen::inRange(0, 3), refusals = *rc::gen::inRange(0, 2);
  const auto scripts = any_scripts(workers);
  std::set<WorkerId> mortals;
  for (WorkerId worker = 0; worker < workers; ++worker) mortals.insert(worker);
  Random random(*rc::gen::arbitrary<std::uint64_t>());
  for (int run = 0; run < 100; ++run) {
    const StepNetwork end = run_at_random(StepNetwork(scripts, kills, mortals, refusals), random);
    RC_ASSERT(end.wrong() == "");
    RC_ASSERT(end.wrong_end() == "");
  }
}
}  // namespace
}  // namespace rehearse::training
