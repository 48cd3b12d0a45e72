#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "runtime/autograd/pass.hpp"
#include "tests/autograd/pass_network.hpp"

namespace rehearse::autograd {
namespace {

/// A random job: graph, creator, several passes of several initiators.
struct Job {
  explicit Job(std::uint64_t seed)
      : random(seed),
        workers(2 + static_cast<int>(random.below(5))),
        graph(MessageGraph::random(random.split("graph"), workers,
                                   5 + static_cast<int>(random.below(30)))) {
    options.creator = static_cast<WorkerId>(random.below(workers));
    if (random.chance(0.3)) options.bounds = {.report_tree_above = 1, .report_arity = 2};
    for (std::uint64_t count = 1 + random.below(4); count > 0; --count) {
      const auto initiator = static_cast<WorkerId>(random.below(workers));
      asks.push_back({initiator, graph.some_received(random, initiator)});
    }
  }

  PassNetwork play(std::uint64_t order, std::vector<Injection> injections = {}) const {
    NetworkOptions with = options;
    with.injections = std::move(injections);
    PassNetwork network(graph, with, order);
    for (const auto& [initiator, roots] : asks) network.ask(initiator, roots);
    network.run();
    return network;
  }
  WorkerId some_worker() { return static_cast<WorkerId>(random.below(workers)); }

  Random random;
  int workers;
  MessageGraph graph;
  NetworkOptions options;
  std::vector<std::pair<WorkerId, std::vector<PairId>>> asks;
};

std::string told(const PassNetwork& network) {
  std::string all;
  for (const std::string& line : network.log()) all += line + "\n";
  return network.violation() + "\n" + all;
}

#define EXPECT_KEPT(network) \
  RC_ASSERT((network).violation() == "" || (RC_LOG() << told(network), false))

// Without faults every pass of every initiator commits everywhere, in the order of the turns, in
// every order of delivery.
RC_GTEST_PROP(PassFaults, every_pass_commits_when_nothing_breaks,
              (std::uint64_t seed, std::uint64_t order)) {
  const Job job(seed);
  const PassNetwork network = job.play(order);
  EXPECT_KEPT(network);
  RC_ASSERT(network.ended().size() == job.asks.size());
  for (const auto& [pass, ended] : network.ended()) RC_ASSERT(ended.status.ok());
  RC_ASSERT(!network.any_closed());
}

// Determinism: the same seeds give the same events in the same order.
RC_GTEST_PROP(PassFaults, the_same_seed_gives_the_same_events, (std::uint64_t seed)) {
  Job job(seed);
  const std::vector<Injection> faults{{Injection::Kind::kill, 20, job.some_worker()}};
  RC_ASSERT(job.play(seed, faults).digest() == job.play(seed, faults).digest());
}

// A worker killed at every step of a run in turn: no hang, no leak, all or nothing among survivors.
RC_GTEST_PROP(PassFaults, all_or_nothing_whenever_a_worker_is_killed,
              (std::uint64_t seed, std::uint64_t order)) {
  const Job job(seed);
  const int steps = job.play(order).steps();
  for (int step = 0; step <= steps; ++step) {
    for (WorkerId victim = 0; victim < job.workers; ++victim) {
      const PassNetwork network = job.play(order, {{Injection::Kind::kill, step, victim}});
      EXPECT_KEPT(network);
    }
  }
}

// The same with two workers killed, close to each other: answers to questions get lost as well.
RC_GTEST_PROP(PassFaults, all_or_nothing_when_two_workers_are_killed,
              (std::uint64_t seed, std::uint64_t order)) {
  Job job(seed);
  const int steps = job.play(order).steps();
  for (int step = 0; step <= steps; ++step) {
    const int later = step + static_cast<int>(job.random.below(15));
    const PassNetwork network =
        job.play(order, {{Injection::Kind::kill, step, job.some_worker()},
                         {Injection::Kind::kill, later, job.some_worker()}});
    EXPECT_KEPT(network);
  }
}

// A node throws at every step in turn: exactly one pass fails, with that worker and node; all
// others commit.
RC_GTEST_PROP(PassFaults, a_node_that_throws_fails_its_pass_with_the_right_cause,
              (std::uint64_t seed, std::uint64_t order)) {
  const Job job(seed);
  const int steps = job.play(order).steps();
  for (int step = 0; step <= steps; ++step) {
    const PassNetwork network = job.play(order, {{Injection::Kind::node_throws, step, 0}});
    EXPECT_KEPT(network);
    std::size_t failed = 0;
    for (const auto& [pass, ended] : network.ended()) {
      if (ended.status.ok()) continue;
      ++failed;
      RC_ASSERT(ended.status.code() == Code::remote_exception);
      RC_ASSERT(ended.status.failure().message == network.thrown() + ": planted");
      RC_ASSERT(!ended.status.failure().worker.empty());
    }
    RC_ASSERT(failed == (network.thrown().empty() ? 0U : 1U));
    RC_ASSERT(!network.any_closed());
  }
}

// The only fault is the loss of a participant: a pass that fails says so, by name.
RC_GTEST_PROP(PassFaults, a_lost_participant_is_named, (std::uint64_t seed, std::uint64_t order)) {
  const Job job(seed);
  const int steps = job.play(order).steps();
  for (int step = 0; step <= steps; step += 3) {
    const auto victim = static_cast<WorkerId>(step % job.workers);
    const PassNetwork network = job.play(order, {{Injection::Kind::kill, step, victim}});
    for (const auto& [pass, ended] : network.ended()) {
      if (ended.status.ok() || !network.alive(pass.initiator) || network.any_closed()) continue;
      RC_ASSERT(ended.status.code() == Code::peer_lost);
      RC_ASSERT(ended.status.failure().worker == worker_name(victim));
    }
  }
}

// Deadlines, closing and withdrawing at every step in turn, alone and with a kill.
RC_GTEST_PROP(PassFaults, deadlines_closing_and_withdrawing_leave_nothing_behind,
              (std::uint64_t seed, std::uint64_t order)) {
  Job job(seed);
  const int steps = job.play(order).steps();
  for (int step = 0; step <= steps; ++step) {
    for (const auto kind :
         {Injection::Kind::deadline, Injection::Kind::close, Injection::Kind::cancel}) {
      std::vector<Injection> faults{{kind, step, job.some_worker()}};
      if (job.random.chance(0.3)) {
        faults.push_back({Injection::Kind::kill, step + static_cast<int>(job.random.below(10)),
                          job.some_worker()});
      }
      const PassNetwork network = job.play(order, faults);
      EXPECT_KEPT(network);
    }
  }
}

// A pass that is not rerunnable and fails after it has begun to run closes the context everywhere.
RC_GTEST_PROP(PassFaults, a_failed_pass_that_is_not_rerunnable_closes_the_context,
              (std::uint64_t seed, std::uint64_t order)) {
  Job job(seed);
  job.options.options.rerunnable = false;
  const int steps = job.play(order).steps();
  for (int step = 0; step <= steps; ++step) {
    const PassNetwork network = job.play(order, {{Injection::Kind::node_throws, step, 0}});
    EXPECT_KEPT(network);
    RC_ASSERT(network.any_closed() == !network.thrown().empty());
  }
}

/// w1 runs a pass over w2, w3 and w4; w0 is only the context's creator.
struct ThreeParticipants {
  ThreeParticipants() : graph(5) {
    graph.cross(2, 1, {graph.cross(3, 2, {})});
    graph.cross(3, 1, {graph.cross(4, 3, {})});
    graph.cross(4, 1, {});
  }
  /// How it ended for the survivors, with `violation` where they disagree.
  std::string end(std::uint64_t order, std::vector<Injection> kills) const {
    PassNetwork network(graph, {.creator = 0, .injections = std::move(kills)}, order);
    const PassId pass = network.ask(1, graph.received(1));
    network.run();
    if (!network.violation().empty()) return network.violation();
    if (network.any_closed()) return "closed";
    for (const WorkerId worker : {2, 3, 4}) {
      const bool taken =
          network.committed().contains(pass) && network.committed().at(pass).contains(worker);
      if (network.alive(worker) && taken) return "committed";
    }
    return "aborted";
  }
  MessageGraph graph;
};

// In doubt: with the initiator killed at every step, both outcomes and the closed context occur, so
// the properties above have seen them.
TEST(PassFaults, the_death_of_an_initiator_ends_in_all_three_ways) {
  const ThreeParticipants job;
  std::map<std::string, int> ends;
  for (std::uint64_t order = 0; order < 40; ++order) {
    for (int step = 0; step < 45; ++step)
      ++ends[job.end(order, {{Injection::Kind::kill, step, 1}})];
  }
  EXPECT_EQ(ends.size(), 3U);
  for (const char* how : {"committed", "aborted", "closed"}) EXPECT_GT(ends[how], 20) << how;
}

// In doubt, and those who know die as well, while their answers are on the way: the survivors still
// agree. (An answer given before the second loss must not count after it.)
TEST(PassFaults, survivors_agree_when_those_who_know_die_too) {
  const ThreeParticipants job;
  Random random(7);
  std::map<std::string, int> ends;
  for (std::uint64_t order = 0; order < 6'000; ++order) {
    const int step = 10 + static_cast<int>(random.below(20));
    const int later = step + static_cast<int>(random.below(25));
    ++ends[job.end(order,
                   {{Injection::Kind::kill, step, 1},
                    {Injection::Kind::kill, later, static_cast<WorkerId>(2 + random.below(3))}})];
  }
  EXPECT_EQ(ends.size(), 3U) << ::testing::PrintToString(ends);
}

// Above the bound of the tree: an inner node killed at any step is a failed pass or a committed
// one, never a hang.
TEST(PassFaults, the_loss_of_an_inner_node_of_the_report_tree_is_no_hang) {
  constexpr int kCallees = 70;
  MessageGraph graph(kCallees + 1);
  for (WorkerId i = 1; i <= kCallees; ++i) graph.cross(i, 0, {graph.cross(0, i, {})});
  int failed = 0, finished = 0;
  for (int step = 0; step < 700; step += 35) {
    NetworkOptions options;
    options.injections = {{Injection::Kind::kill, step, 1}};
    PassNetwork network(graph, options, step);
    const PassId pass = network.ask(0, graph.received(0));
    network.run();
    ASSERT_EQ(network.violation(), "");
    ++(network.ended().at(pass).status.ok() ? finished : failed);
  }
  EXPECT_GT(failed, 5);
  EXPECT_GT(finished, 0);
}

// The control: workers that take their values over when they report, before the verdict, break all
// or nothing, and the checks above see it.
TEST(PassFaults, commit_at_the_report_would_be_seen) {
  int seen = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Job job(seed);
    job.options.commits_at_report = true;
    const PassNetwork network =
        job.play(seed, {{Injection::Kind::node_throws, static_cast<int>(5 + seed % 20), 0}});
    if (!network.violation().empty()) ++seen;
  }
  EXPECT_GT(seen, 10);
}

}  // namespace
}  // namespace rehearse::autograd
