// Gradients of gradients: with `create_graph` a pass is itself recorded, on every worker.

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/programs/small_job.hpp"
#include "tests/programs/torch_nodes.hpp"

namespace rehearse::programs {
namespace {

using dist_autograd::Context;

// f = a²b² for the leaves a = 2 of worker 0 and b = 3 of worker 1.
class HigherOrder : public testing::TestWithParam<In> {
 protected:
  Said say_in_job(SmallJob::Body body) {
    const RunOutcome outcome = job_.run(GetParam(), JobSetup(2, 1), std::move(body));
    EXPECT_EQ(complaints(outcome), "");
    return said(outcome);
  }
  Tensor f(Worker& worker) {
    const Tensor product = worker.rpc().call(1, job_.times, leaf_of(worker));
    return (product * product).sum();
  }
  static Tensor own_gradient(Worker& worker, Context& context) {
    return context.gradients({leaf_of(worker)})[0];
  }

  SmallJob job_;
  Function<Tensor(ContextId)> gradient_there_ =
      job_.program.function("gradient_there", [](Worker& worker, ContextId context) {
        return dist_autograd::get_gradients(worker, context, {leaf_of(worker)})[0];
      });
};

INSTANTIATE_TEST_SUITE_P(InEveryWorld, HigherOrder, testing::ValuesIn(worlds()),
                         testing::PrintToStringParamName());

// The sum of (df/da)² = 4a²b⁴: its gradients add to those of f.
TEST_P(HigherOrder, GradientsOfTheCallersGradientReachBothWorkers) {
  EXPECT_EQ(say_in_job([&](Worker& worker) {
              Context context(worker);
              context.backward(f(worker), {.create_graph = true});
              say(worker, job_.gradients(worker, context.id()));
              const Tensor gradient = own_gradient(worker, context);
              context.backward((gradient * gradient).sum());
              say(worker, job_.gradients(worker, context.id()));
            }),
            (Said{"36 24", "1332 1752"}));
}

// df/da · df/db = 4a³b³, where df/db comes from worker 1 by a call.
TEST_P(HigherOrder, GradientsMayTravelToAnotherWorkerFirst) {
  EXPECT_EQ(say_in_job([&](Worker& worker) {
              Context context(worker);
              context.backward(f(worker), {.create_graph = true});
              const Tensor there = worker.rpc().call(1, gradient_there_, context.id());
              context.backward((own_gradient(worker, context) * there).sum());
              say(worker, job_.gradients(worker, context.id()));
            }),
            Said{"1332 888"});
}

// The third order: df/da + d(df/da)²/da = 2ab² + 8ab⁴ is what the context holds for a after two
// passes; its gradients come on top.
TEST_P(HigherOrder, PassesMayBeRecordedAgainAndAgain) {
  EXPECT_EQ(say_in_job([&](Worker& worker) {
              Context context(worker);
              context.backward(f(worker), {.create_graph = true});
              const Tensor gradient = own_gradient(worker, context);
              context.backward((gradient * gradient).sum(), {.create_graph = true});
              context.backward(own_gradient(worker, context).sum());
              say(worker, job_.gradients(worker, context.id()));
            }),
            Said{"1998 3504"});
}

// A pass that is not recorded gives gradients without a history.
TEST_P(HigherOrder, GradientsHaveNoHistoryUnlessAskedFor) {
  EXPECT_EQ(say_in_job([&](Worker& worker) {
              Context context(worker);
              const Tensor loss = f(worker);
              for (const bool recorded : {false, true, false}) {
                context.backward(loss, {.retain_graph = true, .create_graph = recorded});
                say(worker, own_gradient(worker, context).requires_grad() ? "history" : "none");
              }
            }),
            (Said{"none", "history", "none"}));
}

// A recorded pass that fails leaves nothing; the next one over the same graph is right.
TEST_P(HigherOrder, AFailedPassLeavesGradientsAndTheirHistoryAsBefore) {
  const auto fragile = job_.program.function("fragile", [](Worker& worker, Tensor x) {
    return on_backward(x * leaf_of(worker), "Fragile", [] { throw std::runtime_error("no"); });
  });
  EXPECT_EQ(say_in_job([&](Worker& worker) {
              Context context(worker);
              context.backward(f(worker), {.create_graph = true});
              const Tensor gradient = own_gradient(worker, context);
              const Tensor broken = worker.rpc().call(1, fragile, gradient).sum();
              for (int i = 0; i < 3; ++i) {
                say(worker, outcome_of([&] { context.backward(broken, {.create_graph = true}); }));
              }
              context.backward((gradient * gradient).sum());
              say(worker, job_.gradients(worker, context.id()));
            }),
            (Said{"pass_failed w1: Fragile: no", "pass_failed w1: Fragile: no",
                  "pass_failed w1: Fragile: no", "1332 1752"}));
}

}  // namespace
}  // namespace rehearse::programs
