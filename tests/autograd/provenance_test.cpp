#include "runtime/autograd/provenance.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <deque>
#include <memory>
#include <string>

#include "runtime/autograd/protocol.hpp"
#include "runtime/autograd/reach.hpp"
#include "tests/autograd/message_graph.hpp"

namespace rehearse::autograd {
namespace {

std::size_t wire_size(const Crossing& crossing) {
  Bytes bytes;
  encode(crossing, bytes);
  return bytes.size();
}

/// Plays a message graph through the provenance of every worker.
class Job {
 public:
  explicit Job(const MessageGraph& graph, const ProvenanceBounds& bounds = {},
               const Provenance::Rare& rare = nullptr)
      : graph_(graph) {
    for (WorkerId worker = 0; worker < graph.workers(); ++worker) {
      workers_.push_back(std::make_unique<Provenance>(
          worker, bounds, [this](PairId pair) { return item_of(pair); }, rare));
    }
    for (const auto& crossed : graph.crossed()) send(crossed);
  }

  /// Asks owners until nothing is missing. Fails if questions do not end.
  std::map<WorkerId, std::vector<PairId>> live(WorkerId worker, const std::vector<PairId>& roots) {
    for (std::size_t round = 0; round <= graph_.crossed().size(); ++round) {
      const LiveSet live = workers_[worker]->live(roots);
      if (live.complete()) return live.sends;
      for (const auto& [owner, asked] : live.missing) {
        ++queries;
        EXPECT_TRUE(workers_[worker]->add_answer(asked, workers_[owner]->answer(asked)));
      }
    }
    ADD_FAILURE() << "questions do not end";
    return {};
  }

  Provenance& of(WorkerId worker) { return *workers_[worker]; }
  std::size_t queries = 0;
  std::size_t bytes = 0;
  std::size_t largest_bytes = 0;
  std::size_t most_items = 0;

 private:
  void send(const MessageGraph::Crossed& crossed) {
    Provenance& sender = *workers_[crossed.pair.owner()];
    SetId behind = Provenance::empty();
    for (const PairId pair : crossed.behind) {
      if (!sender.saturated()) behind = join(sender, behind, pair);
    }
    const Crossing crossing{crossed.pair, sender.on_send(crossed.pair, crossed.receiver, behind)};
    bytes += wire_size(crossing);
    largest_bytes = std::max(largest_bytes, wire_size(crossing));
    most_items = std::max(most_items, crossing.items.size());
    workers_[crossed.receiver]->on_receive(crossed.pair.owner(), crossing.items);
  }
  static SetId join(Provenance& sender, SetId set, PairId pair) {
    const SetId one = sender.single(pair);
    return sender.saturated() ? Provenance::empty() : sender.join(set, one);
  }
  std::optional<Item> item_of(PairId pair) const {
    const auto& crossed = graph_.at(pair);
    return Item{pair, crossed.receiver, crossed.behind};
  }

  const MessageGraph& graph_;
  std::vector<std::unique_ptr<Provenance>> workers_;
};

void expect_exact(const ProvenanceBounds& bounds, const Provenance::Rare& rare, Random random,
                  std::size_t* queries) {
  const int workers = 2 + static_cast<int>(random.below(6));
  const MessageGraph graph =
      MessageGraph::random(random.split("graph"), workers, 10 + static_cast<int>(random.below(90)));
  Job job(graph, bounds, rare);
  for (int pass = 0; pass < 5; ++pass) {
    const auto initiator = static_cast<WorkerId>(random.below(workers));
    const std::vector<PairId> roots = graph.some_received(random, initiator);
    RC_ASSERT(job.live(initiator, roots) == graph.live(roots));
  }
  *queries += job.queries;
}

// Exactness: on random message graphs the live sets are those of a walk over everything, and with
// the default bounds nothing has to be asked.
RC_GTEST_PROP(Provenance, knows_the_live_sends_of_every_worker_without_asking,
              (std::uint64_t seed)) {
  std::size_t queries = 0;
  expect_exact({}, nullptr, Random(seed), &queries);
  RC_ASSERT(queries == 0U);
}

// It is a cache: whatever the bounds, and whatever is withheld on purpose, questions to the owners
// lead to the same sets.
RC_GTEST_PROP(Provenance, is_exact_whatever_its_bounds, (std::uint64_t seed)) {
  Random random(seed);
  ProvenanceBounds bounds;
  bounds.message_items = random.below(3);
  bounds.answer_items = random.below(3);
  bounds.words = random.below(60);
  bounds.inline_pairs = random.below(4);
  Random rare = random.split("rare");
  std::size_t queries = 0;
  expect_exact(
      bounds, [&rare](const char*) { return rare.chance(0.3); }, random.split("job"), &queries);
  RC_CLASSIFY(queries > 0);
}

// The control of the one above: with such bounds questions are indeed asked.
TEST(Provenance, asks_when_its_bounds_are_tiny) {
  std::size_t queries = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    expect_exact({.message_items = 1, .answer_items = 0}, nullptr, Random(seed), &queries);
  }
  EXPECT_GT(queries, 20U);
}

// Opaque pairs: once the sets have outgrown their bound nothing is attached, and owners answer from
// their graphs.
TEST(Provenance, answers_for_opaque_pairs_from_the_graph) {
  MessageGraph graph(2);
  PairId last = graph.cross(0, 1, {});
  for (int i = 0; i < 50; ++i) last = graph.cross((i + 1) % 2, i % 2, {last});
  Job job(graph, {.words = 10});
  EXPECT_TRUE(job.of(0).saturated());
  EXPECT_GT(job.of(0).opaque_count(), 0U);
  const WorkerId end = graph.at(last).receiver;
  EXPECT_EQ(job.live(end, {last}), graph.live({last}));
  EXPECT_GT(job.queries, 0U);
}

// An owner that does not know its own pair ends the questions: no loop.
TEST(Provenance, says_when_an_owner_does_not_know_its_pair) {
  Provenance asker(0, {}, nullptr);
  Provenance owner(1, {}, [](PairId) { return std::nullopt; });
  const PairId pair(1, 7);
  EXPECT_EQ(asker.live({pair}).missing, (std::map<WorkerId, std::vector<PairId>>{{1, {pair}}}));
  EXPECT_FALSE(asker.add_answer({pair}, owner.answer({pair})));
}

// Cost: along a chain over many workers a message stays small, however long the history.
TEST(Provenance, attaches_a_bounded_number_of_items_along_a_chain) {
  constexpr int kHops = 1000;
  MessageGraph graph(kHops + 1);
  PairId last = graph.cross(0, 1, {});
  for (WorkerId i = 1; i < kHops; ++i) last = graph.cross(i, i + 1, {last});
  Job job(graph);
  EXPECT_EQ(job.most_items, 64U);
  EXPECT_LE(job.largest_bytes, 64U * 10);
  EXPECT_EQ(job.live(kHops, {last}), graph.live({last}));
}

// Cost: between two workers each message carries only what the other does not have.
TEST(Provenance, attaches_only_what_the_receiver_does_not_know) {
  MessageGraph graph(2);
  PairId last = graph.cross(0, 1, {});
  for (int i = 1; i < 1000; ++i) last = graph.cross(i % 2, (i + 1) % 2, {last});
  Job job(graph);
  EXPECT_EQ(job.most_items, 1U);
  EXPECT_LE(job.bytes, 1000U * 15);
  EXPECT_EQ(job.live(graph.at(last).receiver, {last}), graph.live({last}));
}

std::size_t all_to_all_bytes(const ProvenanceBounds& bounds, int workers, int rounds) {
  MessageGraph graph(workers);
  std::vector<std::vector<PairId>> behind(workers);
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::vector<PairId>> next(workers);
    for (WorkerId from = 0; from < workers; ++from) {
      for (WorkerId to = 0; to < workers; ++to) {
        if (from != to) next[to].push_back(graph.cross(from, to, behind[from]));
      }
    }
    behind = std::move(next);
  }
  Job job(graph, bounds);
  EXPECT_EQ(job.live(0, behind[0]), graph.live(behind[0]));
  return job.bytes;
}

// Shared sets: what an all-to-all carries grows with the pairs, not with the square of the workers
// behind each. Flat lists are the control.
TEST(Provenance, shares_large_sets_in_an_all_to_all) {
  ProvenanceBounds shared{.message_items = 1 << 20};
  ProvenanceBounds flat = shared;
  flat.inline_pairs = 1 << 20;
  const std::size_t shared_bytes = all_to_all_bytes(shared, 16, 5);
  const std::size_t flat_bytes = all_to_all_bytes(flat, 16, 5);
  EXPECT_LT(shared_bytes * 3, flat_bytes);
}

// A growing set that is sent on each time travels as its base set and what is new.
TEST(Provenance, sends_a_growing_set_as_base_and_extras) {
  MessageGraph graph(3);
  std::vector<PairId> received;
  for (int i = 0; i < 300; ++i) {
    received.push_back(graph.cross(1, 0, {}));
    graph.cross(0, 2, received);
  }
  Job job(graph, {.message_items = 1 << 20});
  EXPECT_LE(job.bytes, 300U * 40);
  EXPECT_EQ(job.live(2, graph.received(2)), graph.live(graph.received(2)));
}

struct FakeNode {
  std::uint64_t number = 0;
  std::optional<PairId> recv;
  std::vector<FakeNode*> targets;
};
struct FakeNodes {
  using Node = FakeNode;
  std::uint64_t sequence(const Node* node) const { return node->number; }
  std::size_t edge_count(const Node* node) const { return node->targets.size(); }
  Node* target(Node* node, std::size_t edge) const { return node->targets[edge]; }
  std::optional<PairId> pair(const Node* node) const { return node->recv; }
};

// Local graphs: the set of each node equals that of a plain walk, nodes are visited once, missing
// edges are stepped over.
RC_GTEST_PROP(Reach, finds_what_each_node_reaches_visiting_it_once, (std::uint64_t seed)) {
  Random random(seed);
  std::deque<FakeNode> nodes;
  Provenance provenance(0, {}, nullptr);
  Reach<FakeNodes> reach(provenance);
  for (std::uint64_t i = 0; i < 60; ++i) {
    FakeNode node{i, std::nullopt, {}};
    if (random.chance(0.2)) {
      node.recv = PairId(1, i);
    } else {
      for (std::uint64_t edges = random.below(4); edges > 0 && i > 0; --edges) {
        node.targets.push_back(random.chance(0.1) ? nullptr : &nodes[random.below(i)]);
      }
    }
    nodes.push_back(node);
    if (!random.chance(0.3)) continue;
    RC_ASSERT(provenance.pairs(reach.of(&nodes.back())) ==
              (reached_pairs<FakeNodes>({&nodes.back()})));
  }
  RC_ASSERT(reach.visited() <= nodes.size());
}

// Addresses are reused: a new node where an old one was is not taken for it.
TEST(Reach, tells_a_new_node_at_an_old_address) {
  Provenance provenance(0, {}, nullptr);
  Reach<FakeNodes> reach(provenance);
  FakeNode node{1, PairId(1, 1), {}};
  EXPECT_EQ(provenance.pairs(reach.of(&node)), std::vector{PairId(1, 1)});
  node = {2, PairId(1, 2), {}};
  EXPECT_EQ(provenance.pairs(reach.of(&node)), std::vector{PairId(1, 2)});
}

// Depth: a chain of a million nodes needs no recursion.
TEST(Reach, walks_a_long_chain) {
  std::vector<FakeNode> nodes(1'000'000);
  nodes[0].recv = PairId(1, 1);
  for (std::size_t i = 1; i < nodes.size(); ++i) nodes[i] = {i, std::nullopt, {&nodes[i - 1]}};
  Provenance provenance(0, {}, nullptr);
  Reach<FakeNodes> reach(provenance);
  FakeNode send{nodes.size(), std::nullopt, {&nodes.back(), nullptr}};
  EXPECT_EQ(provenance.pairs(reach.behind(&send)), std::vector{PairId(1, 1)});
  EXPECT_EQ(reach.visited(), nodes.size());
  reach.behind(&send);
  EXPECT_EQ(reach.visited(), nodes.size());
}

// A saturated provenance gives the empty set and no crash.
TEST(Reach, stops_when_the_provenance_is_saturated) {
  std::vector<FakeNode> nodes(100);
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i] = {i, PairId(1, i), {}};
  Provenance provenance(0, {.words = 20}, nullptr);
  Reach<FakeNodes> reach(provenance);
  FakeNode send{nodes.size(), std::nullopt, {}};
  for (FakeNode& node : nodes) send.targets.push_back(&node);
  EXPECT_EQ(reach.behind(&send), Provenance::empty());
  EXPECT_TRUE(provenance.saturated());
  EXPECT_TRUE(provenance.on_send(PairId(0, 0), 1, Provenance::empty()).empty());
}

}  // namespace
}  // namespace rehearse::autograd
