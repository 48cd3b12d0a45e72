#include "runtime/autograd/cut_nodes.hpp"

#include <ATen/Functions.h>
#include <ATen/SequenceNumber.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "runtime/base/error.hpp"
#include "tests/autograd/graphs.hpp"
#include "tests/autograd/programs.hpp"

namespace rehearse::autograd {
namespace {

using namespace testing;

struct Journal {
  std::vector<at::Tensor> gradients;  // by pass, by worker, by leaf
  bool operator==(const Journal& other) const {
    return std::equal(gradients.begin(), gradients.end(), other.gradients.begin(),
                      other.gradients.end(), same);
  }
};

// Two passes over one graph, one root each.
Journal uncut_journal(const Program& program, std::uint64_t seed) {
  Job job(program, false, seed, Random(0));
  const std::vector<at::Tensor> roots = job.forward();
  std::vector<at::Tensor> leaves;
  for (auto& worker : job.workers()) {
    leaves.insert(leaves.end(), worker.leaves.begin(), worker.leaves.end());
  }
  Journal journal;
  for (const at::Tensor& root : roots) {
    const auto gradients = torch_gradients({root}, leaves);
    journal.gradients.insert(journal.gradients.end(), gradients.begin(), gradients.end());
  }
  return journal;
}

Journal cut_journal(const Program& program, std::uint64_t seed, Random random, Order order,
                    std::uint32_t* inversions = nullptr) {
  Job job(program, true, seed, random);
  const std::vector<at::Tensor> roots = job.forward();
  Journal journal;
  for (std::size_t pass = 0; pass < roots.size(); ++pass) {
    ExecutorOptions options;
    options.retain_graph = pass == 0;
    options.order = order;
    const auto maps = job.backward({roots[pass]}, options);
    if (inversions) *inversions += job.key_inversions();
    for (std::size_t w = 0; w < maps.size(); ++w) {
      for (const auto& leaf : job.workers()[w].leaves) {
        journal.gradients.push_back(maps[w].gradient(leaf));
      }
    }
  }
  return journal;
}

// The same program text, cut and delivered in random orders forward and backward, against torch's
// engine on the uncut graph: every leaf of every worker has the same bits.
RC_GTEST_PROP(CutGraph, HasTheBitsOfTheUncutGraphInEveryOrder, (std::uint64_t seed)) {
  const Program program = random_program(seed);
  const Journal expected = uncut_journal(program, seed);
  for (int order = 0; order < 3; ++order) {
    std::uint32_t inversions = 0;
    const Random random(*rc::gen::arbitrary<std::uint64_t>());
    RC_ASSERT(cut_journal(program, seed, random, Order::canonical, &inversions) == expected);
    RC_ASSERT(inversions == 0u);
  }
}

int runs_that_differ(Order order) {
  int differing = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Program program = random_program(seed);
    differing += !(cut_journal(program, seed, Random(seed), order) == uncut_journal(program, seed));
  }
  return differing;
}

// Controls: the comparison above can fail, and both halves of the canonical key are needed.
TEST(CutGraph, AddingInOrderOfArrivalIsCaught) { EXPECT_GT(runs_that_differ(Order::arrival), 5); }
TEST(CutGraph, OrderingBySequenceNumbersAloneIsCaught) {
  EXPECT_GT(runs_that_differ(Order::sequence_only), 5);
}
TEST(CutGraph, TheControlsProgramsAreRightInCanonicalOrder) {
  EXPECT_EQ(runs_that_differ(Order::canonical), 0);
}

// Leaves come in the order of the sequential program, whatever arrived first.
RC_GTEST_PROP(CutGraph, ListsLeavesInTheUncutOrder, (std::uint64_t seed)) {
  const Program program = random_program(seed);
  Job uncut(program, false, seed, Random(0));
  const auto uncut_root = uncut.forward()[0];
  Executor whole;
  whole.plan(roots_of({uncut_root}), {}, {}).or_throw();
  Job cut(program, true, seed, Random(seed));
  const auto cut_root = cut.forward()[0];
  const auto maps = cut.backward({cut_root}, {});
  for (std::size_t w = 0; w < maps.size(); ++w) {
    std::vector<std::size_t> expected;  // a leaf may be reached and get no gradient
    for (const at::Tensor& leaf : whole.leaves()) {
      for (std::size_t i = 0; i < 2; ++i) {
        const bool here = leaf.is_same(uncut.workers()[w].leaves[i]);
        const at::Tensor gradient = maps[w].gradient(cut.workers()[w].leaves[i]);
        if (here && gradient.defined()) expected.push_back(i);
      }
    }
    const auto entries = maps[w].in_order(&cut.workers()[w].segments);
    RC_ASSERT(entries.size() == expected.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      RC_ASSERT(entries[i].leaf.is_same(cut.workers()[w].leaves[expected[i]]));
    }
  }
}

std::vector<std::vector<at::Tensor>> by_worker(Job& job, const std::vector<GradientMap>& maps) {
  std::vector<std::vector<at::Tensor>> gradients(maps.size());
  for (std::size_t w = 0; w < maps.size(); ++w) {
    for (const auto& leaf : job.workers()[w].leaves) gradients[w].push_back(maps[w].gradient(leaf));
  }
  return gradients;
}

// Gradients that are recorded cross workers as cut messages; the penalty on them has the bits of
// torch's double backward on the uncut graph.
RC_GTEST_PROP(CutGraph, SecondOrderHasTheBitsOfTheUncutGraph, (std::uint64_t seed)) {
  const Program program = random_program(seed);
  Job uncut(program, false, seed, Random(0));
  std::vector<at::Tensor> leaves;
  for (auto& worker : uncut.workers()) {
    leaves.insert(leaves.end(), worker.leaves.begin(), worker.leaves.end());
  }
  const auto first = torch_gradients({uncut.forward()[0]}, leaves, true);
  std::vector<std::vector<at::Tensor>> split;
  for (std::size_t i = 0; i < first.size(); i += 2) split.push_back({first[i], first[i + 1]});
  const at::Tensor uncut_penalty = uncut.penalty(split);
  RC_PRE(uncut_penalty.requires_grad());
  const auto expected = torch_gradients({uncut_penalty}, leaves);

  Job cut(program, true, seed, Random(*rc::gen::arbitrary<std::uint64_t>()));
  ExecutorOptions options;
  options.create_graph = true;
  const auto maps = cut.backward({cut.forward()[0]}, options);
  const at::Tensor penalty = cut.penalty(by_worker(cut, maps));
  const auto second = by_worker(cut, cut.backward({penalty}, {}));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    RC_ASSERT(same(second[i / 2][i % 2], expected[i]));
  }
}

/// x on worker 0, one message to worker 1; both ends in this process.
struct OneMessage {
  explicit OneMessage(std::vector<at::Tensor> sent, ContextId context = 1) {
    send = cut_send(sent, pair);
    std::vector<bool> flags;
    for (const at::Tensor& tensor : sent) {
      received.push_back(tensor.detach().clone());
      flags.push_back(tensor.requires_grad());
    }
    cut_receive(received, flags, {context, pair}, "w0");
  }

  PairId pair{0, 7};
  std::shared_ptr<SendNode> send;
  std::vector<at::Tensor> received;
};

ExecutorOptions in_context(ContextId context) {
  ExecutorOptions options;
  options.context = context;
  return options;
}

std::vector<OutgoingGradients> run_receiver(const at::Tensor& root) {
  Executor executor;
  executor.plan(roots_of({root}), {}, in_context(1)).or_throw();
  executor.run_slice(100).or_throw();
  return executor.take_outbox();
}

TEST(CutNodes, AMessageWithoutGradNeedsNoPair) {
  const at::Tensor x = random_leaf(1, {4});
  EXPECT_EQ(cut_send(std::vector{x.detach(), at::Tensor()}, PairId(0, 1)), nullptr);
  const at::NoGradGuard no_grad;
  EXPECT_EQ(cut_send(std::vector{x}, PairId(0, 1)), nullptr);
}

TEST(CutNodes, TorchsEngineIsToldToUseDistributedBackward) {
  const OneMessage message({random_leaf(1, {4})});
  try {
    torch_gradients({(message.received[0] * 2).sum()}, {});
    FAIL() << "backward went through a receive node";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::bad_argument);
    EXPECT_NE(error.message().find("w0"), std::string::npos);
    EXPECT_NE(error.message().find("dist_autograd::backward"), std::string::npos);
  }
}

// One gradient a tensor that requires grad, undefined where nothing was used.
TEST(CutNodes, UnusedTensorsOfAMessageGiveUndefinedGradients) {
  const OneMessage message({random_leaf(1, {4}), at::ones({4}), random_leaf(2, {4})});
  EXPECT_FALSE(message.received[1].requires_grad());
  const auto out = run_receiver((message.received[2] * message.received[1]).sum());
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].pair, message.pair);
  ASSERT_EQ(out[0].gradients.size(), 2u);
  EXPECT_FALSE(out[0].gradients[0].defined());
  EXPECT_TRUE(at::equal(out[0].gradients[1], at::ones({4})));
}

TEST(CutNodes, AReceivedTensorMayBeARoot) {
  const OneMessage message({random_leaf(1, {})});
  EXPECT_TRUE(at::equal(run_receiver(message.received[0])[0].gradients[0], at::ones({})));
}

TEST(CutNodes, AnotherContextsTensorsAreRefused) {
  const OneMessage message({random_leaf(1, {})}, 2);
  Executor executor;
  const Status planned = executor.plan(roots_of({message.received[0]}), {}, in_context(1));
  EXPECT_EQ(planned.code(), Code::bad_argument);
  EXPECT_NE(planned.failure().message.find("another context"), std::string::npos);
}

class Feeding : public ::testing::Test {
 protected:
  Feeding() {
    const std::shared_ptr<SendNode> sends[] = {message_.send};
    executor_.plan({}, sends, in_context(1)).or_throw();
  }

  at::Tensor leaf_ = random_leaf(1, {4});
  OneMessage message_{{leaf_ * 2, leaf_.sin()}};
  Executor executor_;
};

TEST_F(Feeding, RunsTheSendersSide) {
  EXPECT_FALSE(executor_.run_slice(100).or_throw());
  EXPECT_FALSE(executor_.done());
  executor_.feed(message_.pair, {at::ones({4}), at::Tensor()}).or_throw();
  executor_.run_slice(100).or_throw();
  EXPECT_TRUE(executor_.done());
  EXPECT_TRUE(at::equal(executor_.staged().gradient(leaf_), at::full({4}, 2.0)));
}

TEST_F(Feeding, AnUndefinedMessageStillCompletesThePass) {
  executor_.feed(message_.pair, std::vector<at::Tensor>(2)).or_throw();
  executor_.run_slice(100).or_throw();
  EXPECT_TRUE(executor_.done());
  EXPECT_FALSE(executor_.staged().gradient(leaf_).defined());
}

TEST_F(Feeding, RefusesWhatWasNotExpected) {
  const std::vector<at::Tensor> gradients(2, at::ones({4}));
  EXPECT_EQ(executor_.feed(PairId(0, 8), gradients).code(), Code::corrupt);
  EXPECT_EQ(executor_.feed(message_.pair, {at::ones({4})}).code(), Code::corrupt);
  EXPECT_TRUE(executor_.feed(message_.pair, gradients).ok());
  EXPECT_EQ(executor_.feed(message_.pair, gradients).code(), Code::corrupt);
}

TEST_F(Feeding, AGradientThatDoesNotFitFailsThePass) {
  executor_.feed(message_.pair, {at::ones({5}), at::ones({4})}).or_throw();
  const auto ran = executor_.run_slice(100);
  EXPECT_EQ(ran.code(), Code::pass_failed);
  EXPECT_NE(ran.failure().message.find("SendNode"), std::string::npos);
}

// Data that flows to a handler from a later one: the program has no sequential run.
TEST(CutGraph, CountsEdgesAgainstTheSequentialOrder) {
  Segments segments;
  const at::Tensor x = random_leaf(1, {});
  segments.open(at::sequence_number::peek(), std::make_shared<const CallPath>(CallPath{1, 3}), 0);
  const at::Tensor later = x.sin();
  segments.close(at::sequence_number::peek());
  segments.open(at::sequence_number::peek(), std::make_shared<const CallPath>(CallPath{1, 1}), 0);
  const at::Tensor earlier = later.cos();
  segments.close(at::sequence_number::peek());
  ExecutorOptions options;
  options.segments = &segments;
  Executor executor;
  executor.plan(roots_of({earlier}), {}, options).or_throw();
  EXPECT_EQ(executor.key_inversions(), 1u);
}

TEST(Identity, SharesMemoryAndVersionUnlessCloned) {
  const at::Tensor x = random_leaf(1, {4}) * 2;
  const at::Tensor alias = cut_identity(std::vector{x})[0];
  const at::Tensor clone = cut_identity(std::vector{x}, Handover::clone)[0];
  EXPECT_EQ(alias.data_ptr(), x.data_ptr());
  EXPECT_NE(clone.data_ptr(), x.data_ptr());
  const auto version = alias._version();
  x.add_(1);
  EXPECT_EQ(alias._version(), version + 1);
}

// Several tensors behind one node, also in the second order.
TEST(Identity, ChangesNoGradient) {
  const at::Tensor x = random_leaf(1, {4});
  for (const bool create_graph : {false, true}) {
    const auto crossed = cut_identity(std::vector{x.sin(), x.detach(), x * x});
    EXPECT_FALSE(crossed[1].requires_grad());
    EXPECT_EQ(crossed[0].grad_fn(), crossed[2].grad_fn());
    const auto gradient = torch_gradients({(crossed[0] * crossed[2]).sum()}, {x}, create_graph)[0];
    const auto expected = torch_gradients({(x.sin() * (x * x)).sum()}, {x}, create_graph)[0];
    EXPECT_TRUE(at::allclose(gradient, expected));
    EXPECT_EQ(gradient.requires_grad(), create_graph);
  }
}

}  // namespace
}  // namespace rehearse::autograd
