// Small jobs under every order in which their messages can arrive, and with a kill at every message
// of every order: right gradients or an error with the name of who was lost, and never a hang.

#include "tests/programs/delivery_orders.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>

#include "tests/programs/small_job.hpp"

namespace rehearse::programs {
namespace {

/// Runs in a context on rank 0 and returns the loss; the gradients are known.
struct SmallProgram {
  std::string name;
  int workers = 2;
  std::string gradients;  ///< of all ranks after the pass, "-" for none
  std::function<Tensor(const SmallJob&, Worker&)> forward;
};

const SmallProgram kChain = {"Chain", 2, "3 2", [](const SmallJob& job, Worker& worker) {
                               return worker.rpc().call(1, job.times, leaf_of(worker)).sum();
                             }};
const SmallProgram kNested = {"Nested", 3, "12 - 6", [](const SmallJob& job, Worker& worker) {
                                return worker.rpc().call(1, job.pass_on, leaf_of(worker), 1).sum() *
                                       3;
                              }};
const SmallProgram kFanOut = {"FanOut", 3, "7 2 2", [](const SmallJob& job, Worker& worker) {
                                const auto one = worker.rpc().async(1, job.times, leaf_of(worker));
                                const auto two = worker.rpc().async(2, job.times, leaf_of(worker));
                                return (one.wait() + two.wait()).sum();
                              }};
const SmallProgram kUnusedResult = {
    "UnusedResult", 3, "3 2 -", [](const SmallJob& job, Worker& worker) {
      const auto unused = worker.rpc().async(2, job.times, leaf_of(worker));
      return worker.rpc().call(1, job.times, leaf_of(worker)).sum();
    }};

/// Where the orders of messages are tried; elsewhere messages arrive in the order of sending.
enum class During { all, forward, backward };
struct Tried {
  SmallProgram program;
  During during = During::all;
};
std::ostream& operator<<(std::ostream& out, const Tried& tried) {
  constexpr std::array<std::string_view, 3> kNames = {"", "Forward", "Backward"};
  return out << tried.program.name << kNames[static_cast<std::size_t>(tried.during)];
}

struct Tally {
  std::uint64_t orders = 0;
  std::uint64_t repeated = 0;
  std::uint64_t crashes = 0;
};

/// One run under the order that `orders` is at.
RunOutcome run_once(const Tried& tried, DeliveryOrders& orders,
                    const std::vector<FaultSpec>& faults) {
  SmallJob job;
  JobSetup setup(tried.program.workers, 1);
  setup.faults = faults;
  job.program.workload("main", [&](Worker& worker) {
    if (worker.rank() != 0) return;
    dist_autograd::Context context(worker);
    say(worker, outcome_of([&] {
          const Tensor loss = tried.program.forward(job, worker);
          orders.set_choosing(tried.during != During::forward);
          context.backward(loss);
        }));
    orders.set_choosing(false);
    for (int rank = 0; rank < worker.world_size(); ++rank) {
      std::string held;
      const std::string heard = outcome_of([&] {
        const Value value = worker.rpc().call(rank, job.gradient, context.id());
        held = value ? fmt::format("{}", *value) : "-";
      });
      say(worker, heard == "ok" ? held : heard);
    }
  });
  orders.set_choosing(tried.during != During::backward);
  ChosenPhysics physics(orders);
  return run_under(physics, job.program, setup);
}

/// `dead`: -1 if nobody is.
void expect_right(const SmallProgram& program, const RunOutcome& outcome, int dead,
                  const std::string& where) {
  std::set<int> victims;
  if (dead >= 0) victims.insert(dead);
  ASSERT_EQ(complaints(outcome, victims), "") << where;
  ASSERT_TRUE(outcome.notes.size() == said(outcome).size()) << "a deadline fired; " << where;
  const Said lines = said(outcome);
  if (dead == 0) return;
  const std::string lost = fmt::format("peer_lost w{}:", dead);
  ASSERT_EQ(lines.size(), static_cast<std::size_t>(program.workers) + 1) << where;
  const bool passed = lines[0] == "ok";
  ASSERT_TRUE(passed || (dead > 0 && lines[0].starts_with(lost))) << lines[0] << "; " << where;
  std::string held;
  std::string expected;
  std::size_t at = 0;
  for (int rank = 0; rank < program.workers; ++rank) {
    const std::string right = program.gradients.substr(at, program.gradients.find(' ', at) - at);
    at += right.size() + 1;
    const std::string& line = lines[static_cast<std::size_t>(rank) + 1];
    held += (line.starts_with(lost) && rank == dead ? "lost" : line) + " ";
    expected += (rank == dead && line.starts_with(lost) ? "lost" : passed ? right : "-") + " ";
  }
  ASSERT_EQ(held, expected) << where;
}

class EveryOrder : public testing::TestWithParam<Tried> {};
INSTANTIATE_TEST_SUITE_P(Of, EveryOrder,
                         testing::Values(Tried{kChain}, Tried{kNested}, Tried{kUnusedResult},
                                         Tried{kFanOut, During::forward},
                                         Tried{kFanOut, During::backward}),
                         testing::PrintToStringParamName());

// The orders of forward and of backward are tried apart: together there are too many.
class EveryCrash : public testing::TestWithParam<Tried> {};
INSTANTIATE_TEST_SUITE_P(Of, EveryCrash,
                         testing::Values(Tried{kChain}, Tried{kNested, During::forward},
                                         Tried{kNested, During::backward},
                                         Tried{kUnusedResult, During::forward},
                                         Tried{kUnusedResult, During::backward},
                                         Tried{kFanOut, During::forward},
                                         Tried{kFanOut, During::backward}),
                         testing::PrintToStringParamName());

TEST_P(EveryOrder, GivesTheRightGradients) {
  DeliveryOrders orders;
  Tally tally;
  do {
    const RunOutcome outcome = run_once(GetParam(), orders, {});
    orders.repeated() ? ++tally.repeated : ++tally.orders;
    expect_right(GetParam().program, outcome, -1, orders.text());
  } while (!HasFatalFailure() && orders.next());
  RecordProperty("orders", static_cast<int>(tally.orders));
  fmt::print("{} orders, {} cut short\n", tally.orders, tally.repeated);
}

/// All orders with a kill of `victim` at the nth event of a kind; false if it never came to that.
bool crash_in_every_order(const Tried& tried, const FaultSpec& kill, Tally& tally) {
  const int victim = kill.who.ranks[0];
  DeliveryOrders orders;
  bool fired = false;
  do {
    const RunOutcome outcome = run_once(tried, orders, {kill});
    if (orders.repeated()) continue;
    const bool now = outcome.faults[0].fired > 0;
    fired |= now;
    tally.crashes += now;
    const std::string where = fmt::format("w{} at {} {}: {}", victim, name(kill.when.event),
                                          kill.when.nth, orders.text());
    expect_right(tried.program, outcome, now ? victim : -1, where);
  } while (!testing::Test::HasFatalFailure() && orders.next());
  return fired;
}

TEST_P(EveryCrash, GivesTheRightGradientsOrTheVictimsName) {
  const auto began = std::chrono::steady_clock::now();
  Tally tally;
  for (int victim = 0; victim < GetParam().program.workers; ++victim) {
    for (const EventKind kind : {EventKind::sent, EventKind::received}) {
      std::uint64_t nth = 1;
      while (crash_in_every_order(GetParam(), kill_at_event(victim, kind, nth), tally)) {
        ASSERT_FALSE(HasFatalFailure());
        ++nth;
      }
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  RecordProperty("crashes", static_cast<int>(tally.crashes));
  fmt::print("{} crashes in {:.1f} s\n", tally.crashes, took.count());
}

}  // namespace
}  // namespace rehearse::programs
