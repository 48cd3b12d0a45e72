// What `backward` and `get_gradients` promise, in every world.

#include <gtest/gtest.h>

#include "tests/programs/small_job.hpp"

namespace rehearse::programs {
namespace {

using namespace std::chrono_literals;

class Backward : public testing::TestWithParam<In> {
 protected:
  // What rank 0 said; complains about anything that is left over.
  Said say_in_job(int workers, SmallJob::Body body) {
    outcome_ = job_.run(GetParam(), JobSetup(workers, 1), std::move(body));
    EXPECT_EQ(complaints(outcome_), "");
    return said(outcome_);
  }
  SmallJob job_;
  RunOutcome outcome_;
};

INSTANTIATE_TEST_SUITE_P(InEveryWorld, Backward, testing::ValuesIn(worlds()),
                         testing::PrintToStringParamName());

// d(l0 · l1 · l2)/dl of two equal elements, l = 2, 3, 4.
TEST_P(Backward, GivesEachWorkerTheGradientOfItsOwnLeaf) {
  EXPECT_EQ(say_in_job(3,
                       [&](Worker& worker) {
                         dist_autograd::Context context(worker);
                         const Tensor one = worker.rpc().call(1, job_.times, leaf_of(worker));
                         context.backward(worker.rpc().call(2, job_.times, one).sum());
                         say(worker, job_.gradients(worker, context.id()));
                       }),
            Said{"12 8 6"});
}

TEST_P(Backward, AddsWhenTheGraphIsRetainedAndRefusesOnceItIsFreed) {
  const Said told = say_in_job(2, [&](Worker& worker) {
    dist_autograd::Context context(worker);
    const Tensor loss = worker.rpc().call(1, job_.times, leaf_of(worker)).sum();
    context.backward(loss, {.retain_graph = true});
    say(worker, job_.gradients(worker, context.id()));
    context.backward(loss);
    say(worker, job_.gradients(worker, context.id()));
    const std::string third = outcome_of([&] { context.backward(loss); });
    say(worker, third.substr(0, 14));
    say(worker, third.find("second time") != std::string::npos ? "says why" : third);
    say(worker, job_.gradients(worker, context.id()));
  });
  EXPECT_EQ(told, (Said{"3 2", "6 4", "pass_failed w1", "says why", "6 4"}));
}

TEST_P(Backward, AddsASecondForwardInTheSameContext) {
  EXPECT_EQ(
      say_in_job(2,
                 [&](Worker& worker) {
                   dist_autograd::Context context(worker);
                   for (int i = 0; i < 2; ++i) {
                     context.backward(worker.rpc().call(1, job_.times, leaf_of(worker)).sum());
                   }
                   say(worker, job_.gradients(worker, context.id()));
                 }),
      Said{"6 4"});
}

TEST_P(Backward, KeepsContextsApart) {
  EXPECT_EQ(say_in_job(2,
                       [&](Worker& worker) {
                         for (int i = 1; i < 3; ++i) {
                           dist_autograd::Context context(worker);
                           context.backward(worker.rpc().call(1, job_.times, filled(i)).sum());
                           say(worker, job_.gradients(worker, context.id()));
                         }
                       }),
            (Said{"- 1", "- 2"}));
}

TEST_P(Backward, TakesSeveralRootsAndTheirGradients) {
  EXPECT_EQ(say_in_job(2,
                       [&](Worker& worker) {
                         dist_autograd::Context context(worker);
                         const Tensor a = worker.rpc().call(1, job_.times, filled(1));
                         const Tensor b = worker.rpc().call(1, job_.times, leaf_of(worker));
                         context.backward({a, b.sum(), leaf_of(worker)},
                                          {.grad_outputs = {filled(10), Tensor(), filled(100)}});
                         say(worker, job_.gradients(worker, context.id()));
                       }),
            Said{"103 12"});
}

TEST_P(Backward, FinishesWhenAResultIsNotUsed) {
  EXPECT_EQ(say_in_job(3,
                       [&](Worker& worker) {
                         dist_autograd::Context context(worker);
                         const auto unused = worker.rpc().async(2, job_.times, leaf_of(worker));
                         const Tensor used = worker.rpc().call(1, job_.times, leaf_of(worker));
                         unused.wait();
                         context.backward(used.sum());
                         say(worker, job_.gradients(worker, context.id()));
                       }),
            Said{"3 2 -"});
}

TEST_P(Backward, WithoutAnyCallIsLocalAutograd) {
  EXPECT_EQ(say_in_job(1,
                       [&](Worker& worker) {
                         dist_autograd::Context context(worker);
                         context.backward(leaf_of(worker).square().sum());
                         say(worker, job_.gradients(worker, context.id()));
                         say(worker, leaf_of(worker).grad().defined() ? "grad" : "no .grad");
                       }),
            (Said{"4", "no .grad"}));
}

TEST_P(Backward, TakesOnlyTheInputsThatAreAskedFor) {
  EXPECT_EQ(say_in_job(2,
                       [&](Worker& worker) {
                         dist_autograd::Context context(worker);
                         const Tensor other = filled(5, true);
                         const Tensor product =
                             worker.rpc().call(1, job_.times, leaf_of(worker) * other);
                         context.backward(product.sum(), {.inputs = {other}});
                         say(worker, fmt::format("{}", context.gradients().size()));
                         say(worker, job_.gradients(worker, context.id()));
                       }),
            (Said{"1", "- 10"}));
}

// A worker may call backward in a context that another one has opened.
TEST_P(Backward, MayBeCalledByAnyWorkerOfTheContext) {
  const auto from_there = job_.program.function("backward_there", [&](Worker& worker, Tensor x) {
    worker.current_context()->backward((x * leaf_of(worker)).sum());
  });
  EXPECT_EQ(say_in_job(2,
                       [&](Worker& worker) {
                         dist_autograd::Context context(worker);
                         worker.rpc().call(1, from_there, leaf_of(worker) * 1);
                         say(worker, job_.gradients(worker, context.id()));
                       }),
            Said{"3 2"});
}

TEST_P(Backward, RefusesBadArgumentsEachWithItsOwnWords) {
  const auto told = say_in_job(2, [&](Worker& worker) {
    dist_autograd::Context context(worker);
    const Tensor good = worker.rpc().call(1, job_.times, filled(1));
    const auto refused = [&](const std::vector<Tensor>& roots,
                             const dist_autograd::BackwardOptions& options = {}) {
      say(worker, outcome_of([&] { context.backward(roots, options); }));
    };
    refused({});
    refused({Tensor()});
    refused({filled(1)});
    refused({good});
    refused({good}, {.grad_outputs = {filled(1).sum()}});
    refused({good}, {.grad_outputs = {filled(1), filled(1)}});
    context.backward(good.sum());
    say(worker, job_.gradients(worker, context.id()));
  });
  EXPECT_EQ(
      told,
      (Said{"bad_argument -: backward: no roots were given; expected at least one tensor",
            "bad_argument -: backward: root 0 is undefined",
            "bad_argument -: backward: root 0 does not require grad: nothing recorded leads to it",
            "bad_argument -: backward: root 0 has shape [2]; only a scalar root needs no "
            "grad_outputs",
            "bad_argument -: backward: grad_outputs[0] has shape [], its root [2]",
            "bad_argument -: backward: 2 grad_outputs for 1 roots; expected one each", "- 1"}));
}

TEST_P(Backward, RefusesContextsThatAreUnknownClosedOrOpenAlready) {
  const auto told = say_in_job(2, [&](Worker& worker) {
    const Tensor root = leaf_of(worker).sum();
    say(worker, outcome_of([&] { dist_autograd::backward(worker, 100, {root}); }));
    say(worker, outcome_of([&] { dist_autograd::get_gradients(worker, 100); }));
    ContextId closed = 0;
    {
      dist_autograd::Context context(worker);
      closed = context.id();
      say(worker, outcome_of([&] { dist_autograd::Context second(worker); }).substr(0, 47));
    }
    say(worker, outcome_of([&] { dist_autograd::backward(worker, closed, {root}); }));
    say(worker, outcome_of([&] { dist_autograd::get_gradients(worker, closed); }));
  });
  EXPECT_EQ(told, (Said{"unknown_context w0: no context with id 0x64 is known here",
                        "unknown_context w0: no context with id 0x64 is known here",
                        "bad_argument w0: this task has a context alread",
                        "context_closed w0: context 0x1 is closed",
                        "context_closed w0: context 0x1 is closed"}));
}

TEST_P(Backward, RefusesARootThatWasReceivedInAnotherContext) {
  const auto told = say_in_job(2, [&](Worker& worker) {
    Tensor foreign;
    {
      dist_autograd::Context first(worker);
      foreign = worker.rpc().call(1, job_.times, filled(1));
    }
    dist_autograd::Context second(worker);
    const std::string text = outcome_of([&] { second.backward(foreign.sum()); });
    say(worker, text.substr(0, text.find(':')));
    say(worker,
        text.find("from one context into another") != std::string::npos ? "says why" : text);
  });
  EXPECT_EQ(told, (Said{"bad_argument -", "says why"}));
}

}  // namespace
}  // namespace rehearse::programs
