// What a graph may be made of, wherever it is cut: gradients are those of single-process autograd.

#include <ATen/ops/embedding.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

#include "tests/programs/small_job.hpp"
#include "tests/programs/torch_nodes.hpp"

namespace rehearse::programs {
namespace {

using dist_autograd::Context;

class Graph : public testing::TestWithParam<In> {
 protected:
  Said say_in_job(int workers, SmallJob::Body body) {
    const RunOutcome outcome = job_.run(GetParam(), JobSetup(workers, 1), std::move(body));
    EXPECT_EQ(complaints(outcome), "");
    return said(outcome);
  }
  SmallJob job_;
};

INSTANTIATE_TEST_SUITE_P(InEveryWorld, Graph, testing::ValuesIn(worlds()),
                         testing::PrintToStringParamName());

std::string compare(const Tensor& got, const Tensor& wanted) {
  if (!got.defined() || !wanted.defined()) return "undefined";
  if (got.scalar_type() != wanted.scalar_type()) return "another dtype";
  if (got.layout() != wanted.layout()) return "another layout";
  const auto dense = [](const Tensor& t) { return t.is_sparse() ? t.to_dense() : t; };
  return at::equal(dense(got), dense(wanted)) ? "equal" : "other values";
}

// pytorch's suite runs each case locally, by a blocking and by an asynchronous call: so does this,
// and to itself.
TEST_P(Graph, GivesTheSameByEveryFormOfCall) {
  const auto twice_sine = job_.program.function("twice_sine", [](Tensor x) { return x.sin() * 2; });
  EXPECT_EQ(say_in_job(2,
                       [&](Worker& worker) {
                         const Tensor x = filled(0.5, true);
                         const auto wanted = plain_gradients((x.sin() * 2).sum(), {x})[0];
                         const auto check = [&](const std::function<Tensor()>& call) {
                           Context context(worker);
                           context.backward(call().sum());
                           say(worker, compare(context.gradients({x})[0], wanted));
                         };
                         check([&] { return x.sin() * 2; });
                         for (const int rank : {0, 1}) {
                           check([&] { return worker.rpc().call(rank, twice_sine, x); });
                           check([&] { return worker.rpc().async(rank, twice_sine, x).wait(); });
                         }
                       }),
            (Said(5, "equal")));
}

// One node receives a message's tensors; it names the sender.
TEST_P(Graph, OfAReplyEndsInANodeThatNamesTheWorker) {
  EXPECT_EQ(say_in_job(2,
                       [&](Worker& worker) {
                         const Context context(worker);
                         say(worker, node_name(worker.rpc().call(1, job_.times, filled(1))));
                         const at::NoGradGuard no_grad;
                         say(worker, node_name(worker.rpc().call(1, job_.times, filled(1, true))));
                       }),
            (Said{"RecvNode from w1", "leaf"}));
}

// Ten tensors, every other one with a gradient; only those are leaves of the context.
TEST_P(Graph, OfMixedArgumentsHasOnlyThoseThatRequireGrad) {
  const auto sums = job_.program.function("sums", [](std::vector<Tensor> all) {
    std::vector<Tensor> results;
    for (const auto& one : all) results.push_back(one * 3);
    return results;
  });
  EXPECT_EQ(say_in_job(2,
                       [&](Worker& worker) {
                         Context context(worker);
                         std::vector<Tensor> all;
                         for (int i = 0; i < 10; ++i) all.push_back(filled(i, i % 2 == 0));
                         const auto results = worker.rpc().call(1, sums, all);
                         Tensor loss = results[0].sum();
                         std::string flags;
                         for (const auto& one : results) {
                           flags += one.requires_grad() ? "x" : ".";
                           loss = loss + one.sum();
                         }
                         context.backward(loss);
                         say(worker, fmt::format("{} {}", flags, context.gradients().size()));
                       }),
            Said{"x.x.x.x.x. 5"});
}

// Of several outputs only one is used: the others' gradients are undefined, and what only they use
// gets none.
TEST_P(Graph, OfAnOutputThatIsNotUsedGivesNoGradient) {
  const auto both = job_.program.function("both", [](Tensor a, Tensor b) {
    return std::vector<Tensor>{a * 2, b * 3};
  });
  EXPECT_EQ(say_in_job(2,
                       [&](Worker& worker) {
                         Context context(worker);
                         const Tensor a = filled(1, true), b = filled(1, true);
                         context.backward(worker.rpc().call(1, both, a, b)[1].sum());
                         const auto gradients = context.gradients({a, b});
                         say(worker, gradients[0].defined() ? "a gradient" : "none");
                         say(worker, compare(gradients[1], filled(3)));
                       }),
            (Said{"none", "equal"}));
}

// A contribution of zero is a gradient of zero, not a missing one.
TEST_P(Graph, OfAnInputThatIsNarrowedAwayGivesZero) {
  const auto stack = job_.program.function("stack", [](Tensor a, Tensor b) {
    return at::stack({a, b});
  });
  EXPECT_EQ(say_in_job(2,
                       [&](Worker& worker) {
                         Context context(worker);
                         const Tensor a = filled(1, true), b = filled(1, true);
                         const Tensor stacked = worker.rpc().call(1, stack, a, b);
                         context.backward(stacked.narrow(0, 0, 1).sum());
                         const auto gradients = context.gradients({a, b});
                         say(worker, compare(gradients[0], filled(1)));
                         say(worker, compare(gradients[1], filled(0)));
                       }),
            (Said{"equal", "equal"}));
}

TEST_P(Graph, MayHaveAnyFloatingDtypes) {
  const auto square = job_.program.function("square", [](Tensor x) { return x * x; });
  const auto mixed = job_.program.function("mixed", [](Tensor x, Tensor y) { return x * y; });
  const auto told = say_in_job(2, [&](Worker& worker) {
    const auto leaf = [](at::ScalarType dtype) {
      return at::empty({3}, dtype).fill_(1.375).set_requires_grad(true);
    };
    for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kComplexFloat,
                             at::kComplexDouble}) {
      Context context(worker);
      const Tensor x = leaf(dtype);
      const Tensor y = worker.rpc().call(1, square, x);
      context.backward({y}, {.grad_outputs = {at::ones_like(y)}});
      say(worker, compare(context.gradients({x})[0], (x.detach() * 2).conj().resolve_conj()));
    }
    Context context(worker);
    const Tensor single = leaf(at::kFloat), twice = leaf(at::kDouble);
    context.backward(worker.rpc().call(1, mixed, single, twice).sum());
    const auto gradients = context.gradients({single, twice});
    say(worker, compare(gradients[0], twice.detach().to(at::kFloat)));
    say(worker, compare(gradients[1], single.detach().to(at::kDouble)));
  });
  EXPECT_EQ(told, Said(8, "equal"));
}

// The table is the caller's, then the callee's: the gradient is sparse where it is kept, and
// crosses as such.
TEST_P(Graph, OfAnEmbeddingHasSparseGradients) {
  const auto embed = job_.program.function("embed", [](Tensor table, Tensor ids) {
    return at::embedding(table, ids, -1, false, /*sparse=*/true);
  });
  const auto table = [] { return at::ones({5, 2}, at::kDouble).set_requires_grad(true); };
  struct Table {
    Tensor rows;
  };
  const auto rows = job_.program.function("rows", [&](Worker& worker, Tensor ids) {
    Tensor& kept = worker.local<Table>().rows;
    if (!kept.defined()) kept = table();
    return at::embedding(kept, ids, -1, false, /*sparse=*/true);
  });
  const auto read = job_.program.function("read", [](Worker& worker, ContextId context) {
    return dist_autograd::get_gradients(worker, context, {worker.local<Table>().rows})[0];
  });
  const auto told = say_in_job(2, [&](Worker& worker) {
    const Tensor ids = at::tensor({1, 3, 1}, at::kLong), mine = table();
    const Tensor loss = at::embedding(mine, ids, -1, false, true).sum();
    const Tensor wanted = plain_gradients(loss, {mine})[0];
    Context context(worker);
    for (int pass = 1; pass <= 2; ++pass) {
      context.backward(worker.rpc().call(1, embed, mine, ids).sum() +
                       worker.rpc().call(1, rows, ids).sum());
      say(worker, compare(context.gradients({mine})[0], wanted * pass));
      say(worker, compare(worker.rpc().call(1, read, context.id()), wanted * pass));
    }
  });
  EXPECT_EQ(told, Said(4, "equal"));
}

TEST_P(Graph, MayHaveCustomFunctionsOnBothSides) {
  const auto cubed = job_.program.function("cubed", [](Tensor x) { return cube(x); });
  EXPECT_EQ(say_in_job(2,
                       [&](Worker& worker) {
                         const Tensor x = filled(2, true);
                         Context context(worker);
                         context.backward(cube(worker.rpc().call(1, cubed, x)).sum());
                         say(worker, compare(context.gradients({x})[0],
                                             plain_gradients(cube(cube(x)).sum(), {x})[0]));
                       }),
            Said{"equal"});
}

// A view crosses, and is written to after it has come back.
TEST_P(Graph, MayHaveViewsAndInPlaceOperations) {
  const auto third = job_.program.function("third", [](Tensor x) {
    Tensor y = x * 1;
    y.narrow(0, 0, 1).mul_(3);
    return y;
  });
  EXPECT_EQ(say_in_job(2,
                       [&](Worker& worker) {
                         Context context(worker);
                         const Tensor x = at::ones({2, 2}, at::kDouble).set_requires_grad(true);
                         Tensor y = worker.rpc().call(1, third, x.t().narrow(0, 0, 1)) * 1;
                         y.mul_(2);
                         context.backward(y.sum());
                         say(worker,
                             compare(context.gradients({x})[0],
                                     at::tensor({6., 0., 6., 0.}).view({2, 2}).to(at::kDouble)));
                       }),
            Said{"equal"});
}

// Neither read nor written.
TEST_P(Graph, LeavesGradOfLeavesAlone) {
  EXPECT_EQ(say_in_job(2,
                       [&](Worker& worker) {
                         const Tensor fresh = filled(1, true), preset = filled(1, true);
                         preset.mutable_grad() = filled(7);
                         Context context(worker);
                         context.backward(worker.rpc().call(1, job_.times, fresh * preset).sum());
                         say(worker, fresh.grad().defined() ? "touched" : "none");
                         say(worker, compare(preset.grad(), filled(7)));
                         say(worker, compare(context.gradients({preset})[0], filled(3)));
                       }),
            (Said{"none", "equal", "equal"}));
}

// The gradient that a user holds is neither taken over nor added to; nor do two leaves share one.
TEST_P(Graph, KeepsBuffersApartThatSomebodyElseHolds) {
  EXPECT_EQ(say_in_job(2,
                       [&](Worker& worker) {
                         const Tensor a = filled(1, true), b = filled(1, true);
                         const Tensor held = filled(5);
                         Context context(worker);
                         const Tensor sum = a + b;
                         for (int pass = 1; pass <= 2; ++pass) {
                           context.backward({sum}, {.retain_graph = true, .grad_outputs = {held}});
                           const auto gradients = context.gradients({a, b});
                           gradients[0].zero_();
                           say(worker, compare(held, filled(5)));
                           say(worker, gradients[0].data_ptr() == gradients[1].data_ptr()
                                           ? "shared"
                                           : "apart");
                           say(worker, compare(gradients[1], filled(5 * pass)));
                         }
                       }),
            (Said{"equal", "apart", "equal", "equal", "apart", "equal"}));
}

// --- hooks

// x is a leaf, y inside, z the result; all three have hooks. The log is kept on the worker.
struct Hooks {
  std::vector<std::string> log;
  std::vector<std::shared_ptr<void>> kept;
};
Tensor with_hooks(Worker& worker, const Tensor& x) {
  Hooks& hooks = worker.local<Hooks>();
  hooks.log.clear();
  const auto log = [&hooks](std::string what) { hooks.log.push_back(std::move(what)); };
  const Tensor y = x * 2, z = y.sin() + y;
  for (const auto& [tensor, name] : {std::pair(x, "x"), std::pair(y, "y"), std::pair(z, "z")}) {
    hooks.kept.push_back(log_hooks(tensor, name, log));
  }
  return z;
}

// A leaf on the callee, so that every hook runs there; torch's own engine says the order.
TEST_P(Graph, RunsHooksInTheOrderAndNumberOfLocalAutograd) {
  const auto hooked = job_.program.function("hooked", [](Worker& worker, Tensor scale) {
    return with_hooks(worker, leaf_of(worker)) * scale;
  });
  const auto log =
      job_.program.function("log", [](Worker& worker) { return worker.local<Hooks>().log; });
  const auto told = say_in_job(2, [&](Worker& worker) {
    const Tensor mine = filled(3, true);
    const Tensor root = with_hooks(worker, mine).sum();
    plain_backward(root);
    say(worker, fmt::format("{}", worker.local<Hooks>().log));
    Context context(worker);
    context.backward(worker.rpc().call(1, hooked, filled(1)).sum());
    say(worker, fmt::format("{}", worker.rpc().call(1, log)));
  });
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[1], told[0]);
  EXPECT_NE(told[0].find("x post"), std::string::npos);
}

TEST_P(Graph, UsesWhatATensorHookReturns) {
  const auto doubled = job_.program.function("doubled", [](Worker& worker, Tensor x) {
    const Tensor y = x * leaf_of(worker);
    y.register_hook([](const Tensor& gradient) { return gradient * 2; });
    return y;
  });
  EXPECT_EQ(say_in_job(2,
                       [&](Worker& worker) {
                         Context context(worker);
                         context.backward(worker.rpc().call(1, doubled, leaf_of(worker)).sum());
                         say(worker, job_.gradients(worker, context.id()));
                       }),
            Said{"6 4"});
}

// --- many passes

TEST_P(Graph, RunsAThousandPassesOfOneContextEachAddingAsMuch) {
  const int passes = is_virtual(GetParam()) ? 1000 : 200;
  EXPECT_EQ(say_in_job(2,
                       [&](Worker& worker) {
                         Context context(worker);
                         const Tensor loss =
                             worker.rpc().call(1, job_.times, leaf_of(worker)).sum();
                         for (int i = 0; i < passes; ++i)
                           context.backward(loss, {.retain_graph = true});
                         say(worker, job_.gradients(worker, context.id()));
                       }),
            Said{fmt::format("{} {}", 3 * passes, 2 * passes)});
}

// What is remembered from pass to pass is of the roots: other roots, other gradients.
TEST_P(Graph, ThatIsKeptIsNotTakenForAnother) {
  EXPECT_EQ(say_in_job(3,
                       [&](Worker& worker) {
                         Context context(worker);
                         const Tensor one = worker.rpc().call(1, job_.times, leaf_of(worker));
                         const Tensor two = worker.rpc().call(2, job_.times, one);
                         const dist_autograd::BackwardOptions again{.retain_graph = true};
                         const Tensor a = one.sum(), b = two.sum();
                         for (const auto& root : {a, a, b, b, a}) context.backward(root, again);
                         context.backward(two, {.retain_graph = true, .grad_outputs = {filled(1)}});
                         context.backward(two, {.grad_outputs = {filled(2)}});
                         say(worker, job_.gradients(worker, context.id()));
                       }),
            Said{"69 46 30"});
}

// 50 failing passes, every other one with a NaN, between good ones: each throws, with worker and
// node, and leaves no trace.
TEST_P(Graph, RunsGoodPassesBetweenFailingOnes) {
  const auto root_of = job_.program.function(
      "root_of", [](Worker& worker, Tensor x) { return (x * leaf_of(worker)).sqrt(); });
  const auto fragile = job_.program.function("fragile", [](Worker& worker, Tensor x) {
    return on_backward(x * leaf_of(worker), "Fragile", [] { throw std::runtime_error("no"); });
  });
  const auto told = say_in_job(2, [&](Worker& worker) {
    Context context(worker);
    const Tensor good = worker.rpc().call(1, job_.times, leaf_of(worker)).sum();
    const Tensor bad = worker.rpc().call(1, fragile, leaf_of(worker)).sum();
    const Tensor nan = worker.rpc().call(1, root_of, filled(0, true)).sum();
    std::set<std::string> failures;
    for (int i = 0; i < 50; ++i) {
      failures.insert(outcome_of([&] {
        i % 2 ? context.backward(bad) : context.backward(nan * 0, {.detect_anomaly = true});
      }));
      context.backward(good, {.retain_graph = true});
    }
    for (const auto& failure : failures) say(worker, failure);
    say(worker, job_.gradients(worker, context.id()));
  });
  EXPECT_EQ(told, (Said{"pass_failed w1: Fragile: no",
                        "pass_failed w1: SqrtBackward0: gave NaN in output 0 of 1", "150 100"}));
}

}  // namespace
}  // namespace rehearse::programs
