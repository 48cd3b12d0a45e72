// Which messages a pass takes, counted in the event log of virtual runs.

#include <gtest/gtest.h>

#include "tests/programs/small_job.hpp"

namespace rehearse::programs {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLatency = 10us;  // of constant physics, between hosts

std::int64_t heard_of_passes(const RunOutcome& outcome, int rank) {
  std::int64_t heard = 0;
  for (const StampedEvent& event : outcome.events) {
    if (event.rank != rank || event.event.kind != EventKind::received) continue;
    const auto kind = static_cast<MessageKind>(event.event.subject);
    heard += kind == MessageKind::start || kind == MessageKind::grad ||
             kind == MessageKind::commit || kind == MessageKind::abort ||
             kind == MessageKind::query || kind == MessageKind::turn;
  }
  return heard;
}

// The leaf is at the far end of a chain of nested calls, so gradients go one way: K hops, while the
// announcements go out in parallel, and one report. Time in this world is latency alone, but for
// the bytes, which take less than one latency in all.
TEST(Messages, OfAChainOfHopsAreOneGradientEachAndAReport) {
  for (const int hops : {1, 2, 5, 9}) {
    SmallJob job;
    JobSetup setup(hops + 1, 1);
    setup.keep_events = true;
    const RunOutcome outcome = job.run(In::memory, setup, [&](Worker& worker) {
      dist_autograd::Context context(worker);
      const Tensor loss = worker.rpc().call(1, job.pass_on, filled(1), hops - 1).sum();
      const Time start = worker.clock().now();
      context.backward(loss);
      say(worker, fmt::format("{}", (worker.clock().now() - start) / kLatency));
    });
    EXPECT_EQ(complaints(outcome), "");
    EXPECT_EQ(said(outcome), Said{fmt::format("{}", hops + 1)});
    EXPECT_EQ(count_sent(outcome, 0, MessageKind::start), hops);
    EXPECT_EQ(count_sent(outcome, 0, MessageKind::commit), hops);
    for (int rank = 0; rank <= hops; ++rank) {
      EXPECT_EQ(count_sent(outcome, rank, MessageKind::grad), rank < hops);
      EXPECT_EQ(count_sent(outcome, rank, MessageKind::done), rank > 0);
      EXPECT_EQ(count_sent(outcome, rank, MessageKind::query), 0);
    }
  }
}

// All 63 others take part: an announcement, a report and a commit each, and two hops there and
// back.
TEST(Messages, OfAPassOverManyWorkersAreThreeForEach) {
  constexpr int kWorkers = 64;
  SmallJob job;
  JobSetup setup(kWorkers, 1);
  setup.keep_events = true;
  const RunOutcome outcome = job.run(In::memory, setup, [&](Worker& worker) {
    dist_autograd::Context context(worker);
    Tensor loss = leaf_of(worker).sum();
    std::vector<Future<Tensor>> parts;
    for (int rank = 1; rank < kWorkers; ++rank)
      parts.push_back(worker.rpc().async(rank, job.times, filled(1)));
    for (const auto& part : parts) loss = loss + part.wait().sum();
    const Time start = worker.clock().now();
    context.backward(loss);
    say(worker, fmt::format("{}", (worker.clock().now() - start) / kLatency));
  });
  EXPECT_EQ(complaints(outcome), "");
  EXPECT_EQ(said(outcome), Said{"2"});
  std::int64_t sent = 0;
  for (int rank = 0; rank < kWorkers; ++rank) {
    for (const MessageKind kind : {MessageKind::start, MessageKind::done, MessageKind::commit,
                                   MessageKind::query, MessageKind::turn_ask}) {
      sent += count_sent(outcome, rank, kind);
    }
  }
  EXPECT_EQ(sent, 3 * (kWorkers - 1));
}

// Worker 2 was called in the context, but its result is not behind the root; worker 3 was not even
// called.
TEST(Messages, OfAPassDoNotReachWorkersThatTheRootsDoNotReach) {
  SmallJob job;
  JobSetup setup(4, 1);
  setup.keep_events = true;
  const RunOutcome outcome = job.run(In::memory, setup, [&](Worker& worker) {
    dist_autograd::Context context(worker);
    worker.rpc().call(2, job.times, leaf_of(worker));
    context.backward(worker.rpc().call(1, job.times, leaf_of(worker)).sum());
  });
  EXPECT_EQ(complaints(outcome), "");
  EXPECT_GT(heard_of_passes(outcome, 1), 0);
  EXPECT_EQ(heard_of_passes(outcome, 2), 0);
  EXPECT_EQ(heard_of_passes(outcome, 3), 0);
}

// A context in which nothing was sent is nobody else's matter.
TEST(Messages, AreNotNeededForALocalPass) {
  SmallJob job;
  JobSetup setup(2, 1);
  setup.keep_events = true;
  const RunOutcome outcome = job.run(In::memory, setup, [&](Worker& worker) {
    dist_autograd::Context context(worker);
    context.backward(leaf_of(worker).sum());
  });
  EXPECT_EQ(complaints(outcome), "");
  EXPECT_EQ(heard_of_passes(outcome, 1), 0);
  EXPECT_EQ(count_sent(outcome, 0, MessageKind::close), 0);
}

}  // namespace
}  // namespace rehearse::programs
