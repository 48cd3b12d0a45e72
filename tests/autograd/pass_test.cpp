#include "runtime/autograd/pass.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/autograd/pass_network.hpp"

namespace rehearse::autograd {
namespace {

/// w0 -> w1 -> ... -> wK.
MessageGraph chain(int hops) {
  MessageGraph graph(hops + 1);
  PairId last = graph.cross(0, 1, {});
  for (WorkerId i = 1; i < hops; ++i) last = graph.cross(i, i + 1, {last});
  return graph;
}

/// w0 calls w1..wK, and each replies.
MessageGraph fan_out(int callees) {
  MessageGraph graph(callees + 1);
  for (WorkerId i = 1; i <= callees; ++i) graph.cross(i, 0, {graph.cross(0, i, {})});
  return graph;
}

// Cost: along a chain of K hops backward returns after K gradient hops and one report, since every
// worker is told at once. Nothing else is sent but one START, DONE and COMMIT per participant.
TEST(PassCore, a_chain_costs_its_hops_and_one_report) {
  constexpr int kHops = 20;
  const MessageGraph graph = chain(kHops);
  PassNetwork network(graph, {.creator = kHops, .in_rounds = true}, 1);
  const PassId pass = network.ask(kHops, graph.received(kHops));
  network.run();
  EXPECT_EQ(network.violation(), "");
  EXPECT_TRUE(network.ended().at(pass).status.ok());
  EXPECT_EQ(network.ended().at(pass).round, kHops + 1);
  EXPECT_EQ(network.messages(MessageKind::start), kHops);
  EXPECT_EQ(network.messages(MessageKind::grad), kHops);
  EXPECT_EQ(network.messages(MessageKind::done), kHops);
  EXPECT_EQ(network.messages(MessageKind::commit), kHops);
  EXPECT_EQ(network.messages(MessageKind::turn_ask), 0);
}

// Cost: an initiator that is not the creator pays one round trip for its turn.
TEST(PassCore, another_initiator_pays_one_round_trip_for_the_turn) {
  const MessageGraph graph = chain(4);
  PassNetwork network(graph, {.creator = 0, .in_rounds = true}, 1);
  const PassId pass = network.ask(4, graph.received(4));
  network.run();
  EXPECT_EQ(network.violation(), "");
  EXPECT_EQ(network.ended().at(pass).round, 2 + 4 + 1);
}

// Exactness: workers that the roots do not reach hear nothing.
TEST(PassCore, workers_that_are_not_reached_hear_nothing) {
  MessageGraph graph(5);
  const PairId used = graph.cross(1, 0, {});
  graph.cross(2, 0, {graph.cross(3, 2, {})});
  PassNetwork network(graph, {}, 1);
  network.ask(0, {used});
  network.run();
  EXPECT_EQ(network.violation(), "");
  for (const WorkerId worker : {2, 3, 4}) EXPECT_FALSE(network.heard_anything(worker));
}

// A pass that reaches nobody else is over without a message.
TEST(PassCore, a_local_pass_sends_nothing) {
  const MessageGraph graph(2);
  PassNetwork network(graph, {}, 1);
  const PassId pass = network.ask(0, {});
  network.run();
  EXPECT_EQ(network.violation(), "");
  EXPECT_TRUE(network.ended().at(pass).status.ok());
  EXPECT_FALSE(network.heard_anything(1));
}

// Above the bound reports go along a tree: the initiator gets as many DONEs as it has children, all
// participants commit, and it costs the depth of the tree.
TEST(PassCore, many_participants_report_along_a_tree) {
  constexpr int kWorkers = 100;
  const MessageGraph graph = fan_out(kWorkers);
  PassNetwork network(graph, {.in_rounds = true}, 1);
  const PassId pass = network.ask(0, graph.received(0));
  network.run();
  EXPECT_EQ(network.violation(), "");
  EXPECT_EQ(network.committed().at(pass).size(), kWorkers + 1U);
  // START, GRAD to and from each callee take 2 rounds; 100 in 8-ary levels are 3 deep.
  EXPECT_EQ(network.ended().at(pass).round, 1 + 3);
  PassNetwork direct(graph, {.bounds = {.report_tree_above = kWorkers}, .in_rounds = true}, 1);
  const PassId same = direct.ask(0, graph.received(0));
  direct.run();
  EXPECT_EQ(direct.ended().at(same).round, 1 + 1);
}

/// A core at one end of wires that the test holds.
class OneCore : public ::testing::Test {
 protected:
  static constexpr ContextId kContext = make_context(0, 0, 1);
  static PassId pass(WorkerId initiator, std::uint32_t counter) {
    return {kContext, initiator, counter};
  }
  Start start(const PassId& id, Settled previous = {}) {
    return {id, {1, 2}, {PairId(1, 0)}, {}, Duration::max(), 0, previous};
  }
  template <class Wanted>
  static int count(const Actions& actions) {
    int found = 0;
    for (const Action& action : actions) found += std::holds_alternative<Wanted>(action);
    return found;
  }
  template <class Wanted>
  static const Wanted* sent(const Actions& actions) {
    for (const Action& action : actions) {
      if (const auto* send = std::get_if<Send>(&action)) {
        if (const auto* message = std::get_if<Wanted>(&send->message)) return message;
      }
    }
    return nullptr;
  }
  Actions receive(WorkerId from, const PassMessage& message) {
    return core.receive(from, message, Time());
  }
  Actions grad(const PassId& id, PairId pair = PairId(1, 0)) {
    return core.receive_gradients(2, id, pair, std::make_shared<int>(0));
  }
  void report(const PassId& id) {
    receive(id.initiator, start(id));
    grad(id);
    EXPECT_TRUE(sent<Done>(core.executed(id)));
  }

  PassCore core{kContext, 1};  // w1, a participant; w0 is the creator
};

// Overtaking: a gradient that comes before its START is kept for it, and fed once.
TEST_F(OneCore, keeps_a_gradient_that_overtakes_its_start) {
  EXPECT_TRUE(grad(pass(0, 0)).empty());
  EXPECT_EQ(core.stashed(), 1U);
  const Actions actions = receive(0, start(pass(0, 0)));
  EXPECT_EQ(count<Plan>(actions), 1);
  EXPECT_EQ(count<Feed>(actions), 1);
  EXPECT_EQ(core.stashed(), 0U);
}

// Checks: a second gradient for a pair, one for a pair that is not live, and what comes after the
// end are dropped and counted.
TEST_F(OneCore, drops_and_counts_gradients_that_do_not_belong) {
  report(pass(0, 0));
  EXPECT_TRUE(grad(pass(0, 0)).empty());
  EXPECT_TRUE(grad(pass(0, 0), PairId(1, 9)).empty());
  receive(0, Commit{pass(0, 0)});
  EXPECT_TRUE(grad(pass(0, 0)).empty());
  EXPECT_EQ(core.statistics().duplicates, 1U);
  EXPECT_EQ(core.statistics().unknown_pairs, 1U);
  EXPECT_EQ(core.statistics().late, 1U);
}

// Back to back: the verdict that the next START carries settles the pass before it starts, though
// its own COMMIT was overtaken; the late COMMIT then does nothing.
TEST_F(OneCore, a_start_that_overtakes_a_commit_carries_the_verdict) {
  report(pass(0, 0));
  EXPECT_TRUE(core.undecided());
  const Actions actions = receive(2, start(pass(2, 0), {pass(0, 0), Verdict::committed}));
  ASSERT_EQ(actions.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<CommitPass>(actions[0]));
  EXPECT_TRUE(std::holds_alternative<Plan>(actions[1]));
  EXPECT_FALSE(core.undecided());
  EXPECT_TRUE(receive(0, Commit{pass(0, 0)}).empty());
}

// Two back: a START waits for the verdict of an older pass that it knows nothing of.
TEST_F(OneCore, a_start_waits_for_the_verdict_of_an_older_pass) {
  report(pass(0, 0));
  EXPECT_EQ(count<Plan>(receive(2, start(pass(2, 1), {pass(2, 0), Verdict::committed}))), 0);
  EXPECT_EQ(count<Plan>(receive(0, Commit{pass(0, 0)})), 1);
}

// An aborted pass whose START comes only when this worker has had the next turn is not started: two
// passes never run at once.
TEST_F(OneCore, refuses_an_older_start_once_it_has_the_turn) {
  const PassId mine = core.new_pass();
  core.ask_turn(mine);
  EXPECT_EQ(count<TurnGranted>(receive(0, Turn{mine, {pass(2, 4), Verdict::aborted}})), 1);
  EXPECT_TRUE(receive(2, start(pass(2, 4))).empty());
  EXPECT_TRUE(receive(3, start(pass(3, 0))).empty());
  EXPECT_EQ(core.live_passes(), 0U);
  EXPECT_EQ(count<Plan>(core.begin(mine, {}, {}, Time(), kNever)), 1);
}

// A START that comes after one whose turn was later belongs to a pass that is over.
TEST_F(OneCore, refuses_a_start_that_a_later_one_has_overtaken) {
  receive(0, start(pass(0, 0), {pass(2, 0), Verdict::aborted}));
  EXPECT_TRUE(receive(2, start(pass(2, 0))).empty());
  EXPECT_EQ(core.live_passes(), 1U);
}

// The tree: the report of a worker below may overtake the START; it goes up with the own one.
TEST_F(OneCore, keeps_a_report_that_overtakes_its_start) {
  EXPECT_TRUE(receive(2, Done{pass(0, 0), {2}}).empty());
  Start along_a_chain = start(pass(0, 0));
  along_a_chain.report_arity = 1;
  receive(0, along_a_chain);
  grad(pass(0, 0));
  const Actions actions = core.executed(pass(0, 0));
  ASSERT_TRUE(sent<Done>(actions));
  EXPECT_EQ(sent<Done>(actions)->workers, (std::vector<WorkerId>{1, 2}));
}

// Fencing: nothing about a pass of a lost initiator is listened to, whoever says it.
TEST_F(OneCore, fences_what_is_about_a_pass_of_a_lost_initiator) {
  grad(pass(2, 0));
  EXPECT_TRUE(core.peer_lost(2).empty());
  EXPECT_EQ(core.stashed(), 0U);
  core.receive_gradients(0, pass(2, 0), PairId(1, 0), nullptr);
  EXPECT_EQ(core.stashed(), 0U);
  EXPECT_TRUE(receive(2, start(pass(2, 0))).empty());
  EXPECT_TRUE(receive(0, Done{pass(2, 0), {0}}).empty());
  EXPECT_EQ(core.stashed(), 0U);
  EXPECT_EQ(core.statistics().fenced, 3U);
}

// Prepared: a worker that has reported waits for the verdict; when the initiator is lost it asks.
TEST_F(OneCore, asks_for_the_verdict_when_the_initiator_is_lost_after_the_report) {
  Start mine = start(pass(3, 0));
  receive(3, mine);
  grad(pass(3, 0));
  core.executed(pass(3, 0));
  const Actions asked = core.peer_lost(3);
  EXPECT_EQ(asked.size(), 2U);  // w2, which takes part, and the creator
  ASSERT_TRUE(sent<VerdictAsk>(asked));
  EXPECT_EQ(sent<VerdictAsk>(asked)->lost, std::vector<WorkerId>{3});
  const Actions told = receive(2, VerdictAnswer{pass(3, 0), Verdict::committed, {3}});
  EXPECT_EQ(count<CommitPass>(told), 1);
  EXPECT_FALSE(core.undecided());
}

// In doubt: only when all others have said that they do not know, the context is closed.
TEST_F(OneCore, closes_the_context_when_nobody_knows_the_verdict) {
  report(pass(2, 0));
  core.peer_lost(2);
  const Actions told = receive(0, VerdictAnswer{pass(2, 0), Verdict::unknown, {2}});
  ASSERT_EQ(count<CloseContext>(told), 1);
  EXPECT_EQ(std::get<CloseContext>(told.back()).failure.code, Code::pass_failed);
  EXPECT_TRUE(sent<Close>(told));
  EXPECT_EQ(count<DropPass>(told), 1);
}

// Not reported: the loss of the initiator is the end of the pass, without a question.
TEST_F(OneCore, drops_a_pass_it_has_not_reported_when_the_initiator_is_lost) {
  receive(2, start(pass(2, 0)));
  const Actions actions = core.peer_lost(2);
  ASSERT_EQ(actions.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<DropPass>(actions[0]));
}

// The loss of the creator closes the context and finishes what was asked for.
TEST_F(OneCore, the_loss_of_the_creator_closes_the_context) {
  const PassId mine = core.new_pass();
  core.ask_turn(mine);
  const Actions actions = core.peer_lost(0);
  EXPECT_EQ(count<Finished>(actions), 1);
  EXPECT_EQ(count<CloseContext>(actions), 1);
  EXPECT_TRUE(core.closed());
}

// First cause: the error of the worker that threw is the one that is reported, with worker and
// node.
TEST_F(OneCore, reports_the_worker_and_the_node_that_threw) {
  receive(0, start(pass(0, 0)));
  const Actions actions =
      core.threw(pass(0, 0), "MulBackward0", {Code::remote_exception, "no", {}, 0});
  ASSERT_TRUE(sent<Fail>(actions));
  EXPECT_EQ(sent<Fail>(actions)->worker, "w1");
  EXPECT_EQ(sent<Fail>(actions)->message, "in MulBackward0: no");
  EXPECT_EQ(count<DropPass>(actions), 1);
}

// A deadline names who is not done.
TEST(PassCore, a_deadline_names_the_workers_that_are_not_done) {
  PassCore core(make_context(0, 0, 1), 0);
  const PassId pass = core.new_pass();
  core.ask_turn(pass);
  core.begin(pass, {{1, {PairId(1, 0)}}, {2, {PairId(2, 0)}}, {3, {PairId(3, 0)}}}, {}, Time(),
             Time(Duration(10)));
  core.executed(pass);
  core.receive(2, Done{pass, {2}}, Time());
  EXPECT_EQ(core.next_deadline(), Time(Duration(10)));
  EXPECT_TRUE(core.expire(Time(Duration(9))).empty());
  const Actions actions = core.expire(Time(Duration(10)));
  const auto finished = std::find_if(actions.begin(), actions.end(), [](const Action& action) {
    return std::holds_alternative<Finished>(action);
  });
  ASSERT_NE(finished, actions.end());
  const Failure& failure = std::get<Finished>(*finished).status.failure();
  EXPECT_EQ(failure.code, Code::timed_out);
  EXPECT_EQ(failure.message, "the deadline of backward passed; not done: w1, w3");
}

}  // namespace
}  // namespace rehearse::autograd
