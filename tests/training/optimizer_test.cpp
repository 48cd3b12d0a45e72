// The distributed optimizer through the public face, in every world.

#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/training/optimizer_job.hpp"

namespace rehearse::training {
namespace {

using namespace std::chrono_literals;
using programs::complaints;
using programs::filled;
using programs::leaf_of;
using programs::outcome_of;
using programs::said;

class Optimizer : public testing::TestWithParam<In> {
 protected:
  /// What rank 0 says when it runs `body`, also in the run without messages.
  Said say_in_job(int workers, const OptimizerJob::Body& body, JobSetup setup = {}) {
    setup.workers = workers;
    const RunOutcome outcome = job_.run(GetParam(), setup, body);
    EXPECT_EQ(complaints(outcome), "");
    EXPECT_EQ(said(outcome), said(programs::run_uncut(job_.program, setup)));
    return said(outcome);
  }

  OptimizerJob job_;
};
INSTANTIATE_TEST_SUITE_P(InEveryWorld, Optimizer, testing::ValuesIn(programs::worlds()),
                         testing::PrintToStringParamName());

// Two owners and the trainer itself, two steps of SGD: p - 2 * 0.5 * 1.
TEST_P(Optimizer, StepsTheParametersOfAllOwners) {
  const Said told = say_in_job(3, [&](Worker& worker) {
    DistributedOptimizer optimizer(worker, sgd(0.5), job_.parameters(worker, {0, 1, 2}));
    say(worker, job_.values(worker, {0, 1, 2}));
    for (int i = 0; i < 2; ++i) job_.step(worker, optimizer, {0, 1, 2});
    say(worker, job_.values(worker, {0, 1, 2}));
    say(worker, fmt::format("{}", optimizer.steps()));
  });
  EXPECT_EQ(told, (Said{"2 3 4", "1 2 3", "2"}));
}

// With momentum a stale gradient or state would move w2 in the second step, whose context has no
// gradient for it; and in the third, whose context never reached it.
TEST_P(Optimizer, LeavesParametersWithoutAGradientAlone) {
  OptimizerOptions options;
  options.algorithm = Sgd{.learning_rate = 1, .momentum = 0.5};
  const Said told = say_in_job(3, [&](Worker& worker) {
    DistributedOptimizer optimizer(worker, options, job_.parameters(worker, {1, 2}));
    job_.step(worker, optimizer, {1, 2});
    say(worker, job_.values(worker, {1, 2}));
    {
      dist_autograd::Context context(worker);
      worker.rpc().call(2, job_.times, filled(1));  // in the context, not in the loss
      context.backward(worker.rpc().call(1, job_.times, filled(1)).sum());
      optimizer.step(context.id());
    }
    say(worker, job_.values(worker, {1, 2}));
    job_.step(worker, optimizer, {1});
    say(worker, job_.values(worker, {1, 2}));
  });
  EXPECT_EQ(told, (Said{"2 3", "0.5 3", "-1.25 3"}));
}

// Every message of a pass's end is late. The step follows at once and has the pass's gradients.
TEST_P(Optimizer, SeesTheGradientsOfAPassThatHasJustReturned) {
  JobSetup setup;
  setup.faults = {programs::jitter(0s)};
  setup.faults[0].by = 20ms;
  setup.faults[0].messages = {MessageKind::commit};
  const Said told = say_in_job(
      3,
      [&](Worker& worker) {
        DistributedOptimizer optimizer(worker, sgd(1), job_.parameters(worker, {1, 2}));
        job_.step(worker, optimizer, {1, 2});
        say(worker, job_.values(worker, {1, 2}));
      },
      setup);
  EXPECT_EQ(told, (Said{"2 3"}));
}

// The learning rates are those of the schedule, step by step: 0.5, 1, 1, 0.5.
TEST_P(Optimizer, FollowsItsSchedule) {
  OptimizerOptions options = sgd(1);
  options.schedule.warmup_steps = 1;
  options.schedule.warmup_start = 0.5;
  options.schedule.decay = StepDecay{2, 0.5};
  const Said told = say_in_job(2, [&](Worker& worker) {
    DistributedOptimizer optimizer(worker, options, job_.parameters(worker, {1}));
    for (int i = 0; i < 4; ++i) {
      say(worker, fmt::format("{}", optimizer.learning_rate()));
      job_.step(worker, optimizer, {1});
      say(worker, job_.values(worker, {1}));
    }
  });
  EXPECT_EQ(told, (Said{"0.5", "2.5", "1", "1.5", "1", "0.5", "0.5", "0"}));
}

// --- errors

// A function on w2 gives its leaf a sparse gradient, which Adam refuses; w1 has staged its part by
// then, or will have. Nothing of the step is seen, and the next one works.
TEST_P(Optimizer, IsInPlaceNowhereIfItRaisesOnOneWorker) {
  const auto pick = job_.program.function("pick", [](Worker& worker) {
    Tensor& table = worker.local<programs::Leaf>().value;
    return at::embedding(table, at::zeros({1}, at::kLong), -1, false, /*sparse=*/true);
  });
  const auto make_table = job_.program.function("make_table", [](Worker& worker) {
    worker.local<programs::Leaf>().value = at::ones({2, 2}, at::kDouble).set_requires_grad(true);
  });
  OptimizerOptions options;
  options.algorithm = Adam{.learning_rate = 1};
  const RunOutcome outcome = job_.run(GetParam(), JobSetup(3, 1), [&](Worker& worker) {
    worker.rpc().call(2, make_table);
    DistributedOptimizer optimizer(worker, options, job_.parameters(worker, {1, 2}));
    dist_autograd::Context context(worker);
    const Tensor there = worker.rpc().call(1, job_.times, filled(1));
    context.backward(there.sum() + worker.rpc().call(2, pick).sum());
    say(worker, outcome_of([&] { optimizer.step(context.id()); }).substr(0, 20));
    say(worker, fmt::format("{} {}", worker.rpc().call(1, job_.value), optimizer.steps()));
    const auto on_1 = job_.parameters(worker, {1});
    DistributedOptimizer other(worker, sgd(1), on_1);
    other.step(context.id());
    say(worker, job_.values(worker, {1}));
  });
  EXPECT_EQ(complaints(outcome), "");
  EXPECT_EQ(said(outcome), (Said{"remote_exception w2:", "3 0", "2"}));
}

TEST_P(Optimizer, RefusesBadOptionsByName) {
  const Said told = say_in_job(2, [&](Worker& worker) {
    const auto with = [&](const OptimizerOptions& options) {
      say(worker, outcome_of([&] {
            DistributedOptimizer optimizer(worker, options, job_.parameters(worker, {1}));
          }));
    };
    with(sgd(-1));
    OptimizerOptions options = sgd(1);
    options.clip_gradient_norm = -2;
    with(options);
  });
  EXPECT_EQ(told, (Said{"bad_argument -: Sgd: learning_rate is -1, expected a number of at least 0",
                        "bad_argument -: optimizer: clip_gradient_norm is -2, expected a number "
                        "above 0"}));
}

TEST_P(Optimizer, RefusesWhatIsNoParameterWithItsOwner) {
  const auto constant = job_.program.function(
      "constant", [](Worker& worker) { return worker.remote_ref(filled(1)); });
  const Said told = say_in_job(2, [&](Worker& worker) {
    say(worker, outcome_of([&] {
          DistributedOptimizer optimizer(worker, sgd(1), {worker.rpc().call(1, constant)});
        }));
    say(worker, outcome_of([&] { DistributedOptimizer optimizer(worker, sgd(1), {}); }));
  });
  EXPECT_EQ(told, (Said{"bad_argument w1: parameter 0 of an optimizer is no leaf that requires a "
                        "gradient",
                        "bad_argument -: an optimizer needs at least one parameter"}));
}

TEST_P(Optimizer, NamesAContextThatIsNotKnown) {
  const RunOutcome outcome = job_.run(GetParam(), JobSetup(2, 1), [&](Worker& worker) {
    DistributedOptimizer optimizer(worker, sgd(1), job_.parameters(worker, {1}));
    say(worker, outcome_of([&] { optimizer.step(0x64); }));
    ContextId closed = 0;
    {
      dist_autograd::Context context(worker);
      closed = context.id();
    }
    say(worker, outcome_of([&] { optimizer.step(closed); }).substr(0, 14));
    say(worker, job_.values(worker, {1}));
  });
  EXPECT_EQ(complaints(outcome), "");
  EXPECT_EQ(said(outcome), (Said{"unknown_context w0: no context with id 0x64 is known here",
                                 "context_closed", "3"}));
}

// --- clipping

// Gradients 1 1 on each of three workers: their norm is sqrt(6), and each is scaled by 2 / sqrt(6).
TEST_P(Optimizer, ClipsByTheNormOfTheGradientsOfAllOwners) {
  OptimizerOptions options = sgd(1);
  options.clip_gradient_norm = 2;
  const Said told = say_in_job(3, [&](Worker& worker) {
    DistributedOptimizer optimizer(worker, options, job_.parameters(worker, {0, 1, 2}));
    job_.step(worker, optimizer, {0, 1, 2});
    const double scale = 2 / (*optimizer.gradient_norm() + 1e-6);
    say(worker, fmt::format("{:.12f}", *optimizer.gradient_norm()));
    for (int owner = 0; owner < 3; ++owner)
      say(worker, fmt::format("{}", worker.rpc().call(owner, job_.value) == owner + 2 - scale));
  });
  EXPECT_EQ(told, (Said{"2.449489742783", "true", "true", "true"}));
}

TEST_P(Optimizer, AppliesNothingIfANormToClipIsNotFinite) {
  OptimizerOptions options = sgd(1);
  options.clip_gradient_norm = 2;
  const Said told = say_in_job(3, [&](Worker& worker) {
    DistributedOptimizer optimizer(worker, options, job_.parameters(worker, {1, 2}));
    dist_autograd::Context context(worker);
    const Tensor fine = worker.rpc().call(1, job_.times, filled(1));
    const Tensor huge = worker.rpc().call(2, job_.times, filled(1e300));
    context.backward((fine + huge * 1e300).sum());
    say(worker, outcome_of([&] { optimizer.step(context.id()); }));
    say(worker, job_.values(worker, {1, 2}));
  });
  EXPECT_EQ(told,
            (Said{"pass_failed w0: the norm of the gradients is inf: nothing is applied", "3 4"}));
}

/// Nine parameters with gradients of very different size, dealt to the owners by `owner_of`.
std::string clipped_digest(In world, const std::function<int(int)>& owner_of) {
  constexpr int kParameters = 9;
  struct Table {
    std::map<int, Tensor> parameters;
  };
  Program program("placement");
  const auto make = program.function("make", [](Worker& worker, int index) {
    const Tensor parameter = (at::arange(1, 6, at::kFloat) / (index + 3)).set_requires_grad(true);
    return worker.remote_ref(worker.local<Table>().parameters[index] = parameter);
  });
  const auto use = program.function("use", [](Worker& worker, int index) {
    return (worker.local<Table>().parameters[index].pow(3) * std::pow(7.0, index - 4)).sum();
  });
  program.workload("main", [&](Worker& worker) {
    if (worker.rank() != 0) return;
    std::vector<RemoteRef<Tensor>> parameters;
    for (int i = 0; i < kParameters; ++i)
      parameters.push_back(worker.rpc().call(owner_of(i), make, i));
    OptimizerOptions options = sgd(0.1);
    options.clip_gradient_norm = 1;
    DistributedOptimizer optimizer(worker, options, parameters);
    for (int step = 0; step < 3; ++step) {
      dist_autograd::Context context(worker);
      Tensor loss = at::zeros({});
      for (int i = 0; i < kParameters; ++i) loss = loss + worker.rpc().call(owner_of(i), use, i);
      context.backward(loss);
      optimizer.step(context.id());
      say(worker, fmt::format("{:a}", *optimizer.gradient_norm()));
    }
    Hash64 hash;
    for (const auto& parameter : parameters) hash.add(autograd::digest(parameter.to_here()));
    say(worker, fmt::format("{:x}", hash.value()));
  });
  JobSetup setup(4, 1);
  setup.faults = {programs::jitter(3ms)};
  const RunOutcome outcome = programs::run(world, program, setup);
  EXPECT_EQ(complaints(outcome), "");
  return fmt::format("{}", fmt::join(said(outcome), " "));
}

// All on one worker, round and round, and backwards, with messages in any order: the same bits.
TEST_P(Optimizer, ClipsToTheSameBitsWhereverParametersAre) {
  const std::string together = clipped_digest(GetParam(), [](int) { return 1; });
  EXPECT_NE(together, "");
  EXPECT_EQ(clipped_digest(GetParam(), [](int index) { return index % 4; }), together);
  EXPECT_EQ(clipped_digest(GetParam(), [](int index) { return 3 - index / 3; }), together);
}

}  // namespace
}  // namespace rehearse::training
