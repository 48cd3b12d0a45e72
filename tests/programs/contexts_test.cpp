// How contexts are opened and closed, and what is left of them: nothing.

#include <gtest/gtest.h>

#include <set>

#include "tests/programs/small_job.hpp"
#include "tests/programs/torch_nodes.hpp"

namespace rehearse::programs {
namespace {

using namespace std::chrono_literals;
using dist_autograd::Context;
using dist_autograd::debug_info;

class Contexts : public testing::TestWithParam<In> {
 protected:
  // What rank 0 said; complains about anything that is left over.
  Said say_in_job(const JobSetup& setup, SmallJob::Body body, const std::set<int>& dead = {}) {
    outcome_ = job_.run(GetParam(), setup, std::move(body));
    EXPECT_EQ(complaints(outcome_, dead), "");
    return said(outcome_);
  }
  Said say_in_job(int workers, SmallJob::Body body) {
    return say_in_job(JobSetup(workers, 1), std::move(body));
  }

  SmallJob job_;
  Function<std::int64_t()> live_ = job_.program.function("live", [](Worker& worker) {
    return static_cast<std::int64_t>(debug_info(worker).live_contexts);
  });
  RunOutcome outcome_;
};

INSTANTIATE_TEST_SUITE_P(InEveryWorld, Contexts, testing::ValuesIn(worlds()),
                         testing::PrintToStringParamName());

std::string code_of(const std::string& outcome) { return outcome.substr(0, outcome.find(' ')); }

// Cases 1 and 2 of what PyTorch pins: unique, with the creator in the upper 16 bits, current while
// open, unknown afterwards.
TEST_P(Contexts, HaveUniqueIdsThatNameTheirCreator) {
  const auto open_many = job_.program.function("open_many", [](Worker& worker) {
    std::set<ContextId> ids;
    for (int i = 0; i < 200; ++i) {
      const Context context(worker);
      if (worker.current_context()->id() != context.id()) return std::string("not current");
      if (context.id() >> 48 != worker.rank()) return std::string("of another");
      ids.insert(context.id());
    }
    const std::string after =
        outcome_of([&] { dist_autograd::get_gradients(worker, *ids.begin()); });
    return fmt::format("{} {} {}", ids.size(), code_of(after),
                       worker.current_context() ? "one is left" : "none is left");
  });
  EXPECT_EQ(say_in_job(2,
                       [&](Worker& worker) {
                         for (const int rank : {0, 1})
                           say(worker, worker.rpc().call(rank, open_many));
                       }),
            (Said(2, "200 context_closed none is left")));
}

TEST_P(Contexts, KnowWhomTheyHaveCalled) {
  EXPECT_EQ(say_in_job(4,
                       [&](Worker& worker) {
                         const Context context(worker);
                         for (const int rank : {3, 0, 1})
                           worker.rpc().call(rank, job_.times, leaf_of(worker));
                         say(worker, fmt::format("{}", context.called()));
                       }),
            Said{"[1, 3]"});
}

// Nested calls make every worker on the way a holder, also without a tensor that requires grad;
// `complaints` sees that nobody holds anything at the end.
TEST_P(Contexts, LiveOnEveryWorkerThatACallCameTo) {
  const auto look = job_.program.function("look", [](Worker& worker, Tensor x) {
    const Tensor twice = x * 2;
    return std::string(worker.current_context() ? "in it" : "outside") +
           (twice.requires_grad() ? ", cut" : "");
  });
  const auto told = say_in_job(4, [&](Worker& worker) {
    {
      const Context context(worker);
      worker.rpc().call(1, job_.pass_on, filled(1, true), 1);
      say(worker, worker.rpc().call(3, look, filled(1)));
      for (int rank = 0; rank < 4; ++rank)
        say(worker, fmt::format("{}", worker.rpc().call(rank, live_)));
    }
    say(worker, fmt::format("{}", debug_info(worker).live_contexts));
    say(worker, worker.rpc().call(3, look, filled(1)));
  });
  EXPECT_EQ(told, (Said{"in it", "1", "1", "1", "1", "0", "outside"}));
}

TEST_P(Contexts, CountTheirPassesWhileTheyRun) {
  const auto watched = job_.program.function("watched", [](Worker& worker, Tensor x) {
    return on_backward(x * leaf_of(worker), "Watched", [&worker] {
      worker.local<Leaf>().marks = static_cast<std::int64_t>(debug_info(worker).live_passes);
    });
  });
  const auto marks =
      job_.program.function("marks", [](Worker& worker) { return worker.local<Leaf>().marks; });
  EXPECT_EQ(say_in_job(2,
                       [&](Worker& worker) {
                         Context context(worker);
                         context.backward(worker.rpc().call(1, watched, leaf_of(worker)).sum());
                         say(worker, fmt::format("{} {}", worker.rpc().call(1, marks),
                                                 debug_info(worker).live_passes));
                       }),
            Said{"1 0"});
}

// Another task ends the context as soon as `backward` waits; the task that had it may open another.
TEST_P(Contexts, ClosedByAnotherTaskWhileAPassRunsFailThePass) {
  EXPECT_EQ(
      say_in_job(
          2,
          [&](Worker& worker) {
            auto context = std::make_unique<Context>(worker);
            const ContextId id = context->id();
            const Tensor loss = worker.rpc().call(1, job_.times, leaf_of(worker)).sum();
            const auto closer = worker.spawn("closer", [&context] { context.reset(); });
            say(worker, code_of(outcome_of([&] { dist_autograd::backward(worker, id, {loss}); })));
            closer.wait();
            say(worker,
                code_of(outcome_of([&] { worker.rpc().call(1, job_.times, leaf_of(worker)); })));
            Context next(worker);
            next.backward(worker.rpc().call(1, job_.times, leaf_of(worker)).sum());
            say(worker, job_.gradients(worker, next.id()));
          }),
      (Said{"context_closed", "context_closed", "3 2"}));
}

// pytorch#38513: the context ends before the reply of a call that nobody waited for.
TEST_P(Contexts, ClosedBeforeAReplyFailTheFutureByName) {
  EXPECT_EQ(say_in_job(2,
                       [&](Worker& worker) {
                         std::optional<Future<Tensor>> late;
                         {
                           const Context context(worker);
                           late = worker.rpc().async(1, job_.times, leaf_of(worker));
                         }
                         say(worker, code_of(outcome_of([&] { late->wait(); })));
                       }),
            Said{"context_closed"});
}

// pytorch#26922 and others: passes in a loop, and the context is closed at any point of them.
TEST(ContextsAtRandom, ClosedAtAnyPointOfAPassEndInAnErrorOrNot) {
  for (int at = 0; at < 120; ++at) {
    SmallJob job;
    const RunOutcome outcome = job.run(In::memory, JobSetup(3, 1), [&](Worker& worker) {
      auto context = std::make_unique<Context>(worker);
      const ContextId id = context->id();
      const auto closer = worker.spawn("closer", [&] {
        worker.clock().sleep_until(worker.clock().now() + at * 1us);
        context.reset();
      });
      const std::string end = outcome_of([&] {
        const Tensor loss = worker.rpc().call(1, job.pass_on, leaf_of(worker), 1).sum();
        for (;;) dist_autograd::backward(worker, id, {loss}, {.retain_graph = true});
      });
      closer.wait();
      say(worker, code_of(end));
    });
    EXPECT_EQ(complaints(outcome), "") << at;
    EXPECT_EQ(said(outcome), Said{"context_closed"}) << at;
  }
}

// pytorch#61920: `close` is late, so holders would pile up; the constructor waits for them.
TEST_P(Contexts, InALoopKeepTheNumberAliveBoundedThoughClosingIsLate) {
  struct Most {
    std::int64_t live = 0;
  };
  const auto note = job_.program.function("note", [](Worker& worker, Tensor x) {
    auto& most = worker.local<Most>().live;
    most = std::max(most, static_cast<std::int64_t>(debug_info(worker).live_contexts));
    return x;
  });
  const auto most =
      job_.program.function("most", [](Worker& worker) { return worker.local<Most>().live; });
  const int contexts = GetParam() == In::memory ? 10'000 : 500;
  JobSetup setup(2, 1);
  setup.limits.contexts_open = 40;
  setup.limits.journal_gradients = false;
  setup.faults = {jitter(0s)};
  setup.faults[0].by = 3ms;
  setup.faults[0].messages = {MessageKind::close};
  const auto told = say_in_job(setup, [&](Worker& worker) {
    const Tensor leaf = leaf_of(worker);
    for (int i = 0; i < contexts; ++i) {
      const Context context(worker);
      worker.rpc().call(1, note, leaf);
    }
    const auto live = worker.rpc().call(1, most);
    say(worker, live > 1 && live <= 40 ? "bounded" : fmt::format("{}", live));
  });
  EXPECT_EQ(told, Said{"bounded"});
}

// The creator never sent anything to worker 2, and worker 1, which did, is lost.
TEST_P(Contexts, AreFreedByHoldersThatTheCreatorNeverHeardOf) {
  JobSetup setup(3, 1);
  setup.faults = {kill_at_event(1, EventKind::sent, 2)};  // its reply
  const auto told = say_in_job(
      setup,
      [&](Worker& worker) {
        const Context context(worker);
        say(worker,
            code_of(outcome_of([&] { worker.rpc().call(1, job_.pass_on, leaf_of(worker), 1); })));
        say(worker, fmt::format("{}", worker.rpc().call(2, live_)));
      },
      {1});
  EXPECT_EQ(told, (Said{"peer_lost", "1"}));
}

// A worker that took part is lost before the context is closed: nobody waits for its answer.
TEST_P(Contexts, DoNotCountOnceALostWorkerIsAllThatHasNotAnswered) {
  JobSetup setup(2, 1);
  setup.limits.contexts_open = 1;
  setup.limits.backward = 2s;
  setup.faults = {kill_at_event(1, EventKind::received, 2)};
  const auto told =
      say_in_job(setup,
                 [&](Worker& worker) {
                   {
                     const Context context(worker);
                     worker.rpc().call(1, job_.times, leaf_of(worker));
                     say(worker, code_of(outcome_of([&] { worker.rpc().call(1, live_); })));
                   }
                   const Context next(worker);
                   say(worker, "open");
                 },
                 {1});
  EXPECT_EQ(told, (Said{"peer_lost", "open"}));
}

// A tensor of one context goes into a call, or a reply, of another.
TEST_P(Contexts, RefuseTensorsOfAnotherContextByBothNames) {
  struct Kept {
    Tensor tensor;
  };
  const auto keep = job_.program.function(
      "keep", [](Worker& worker, Tensor x) { worker.local<Kept>().tensor = x; });
  const auto kept =
      job_.program.function("kept", [](Worker& worker) { return worker.local<Kept>().tensor; });
  const auto told = say_in_job(2, [&](Worker& worker) {
    Tensor foreign;
    std::string names;
    const auto refused = [&](const std::string& text, ContextId here) {
      const bool both = text.find(names) != std::string::npos &&
                        text.find(fmt::format("context {:#x}", here)) != std::string::npos;
      say(worker, code_of(text) + (both ? " names both" : ": " + text));
    };
    {
      const Context first(worker);
      names = fmt::format("context {:#x}", first.id());
      foreign = worker.rpc().call(1, job_.times, leaf_of(worker));
      worker.rpc().call(1, keep, leaf_of(worker));
    }
    Context second(worker);
    refused(outcome_of([&] { worker.rpc().call(1, job_.times, foreign); }), second.id());
    refused(outcome_of([&] { worker.rpc().call(1, kept); }), second.id());
    second.backward(worker.rpc().call(1, job_.times, leaf_of(worker)).sum());
    say(worker, job_.gradients(worker, second.id()));
  });
  EXPECT_EQ(told, (Said{"bad_argument names both", "bad_argument names both", "3 2"}));
}

// 20 tasks on each of three workers against worker 0 at once, each in a context of its own: every
// one gets its own gradients.
TEST_P(Contexts, OfManyTasksAtOnceAreKeptApart) {
  const auto trainers = [&](Worker& worker) {
    std::vector<Future<double>> tasks;
    for (int i = 1; i <= 20; ++i) {
      tasks.push_back(worker.spawn("trainer", [this, &worker, i] {
        Context context(worker);
        const Tensor mine = filled(i, true);
        context.backward(worker.rpc().call(0, job_.times, mine * i).sum());
        const double there = worker.rpc().call(0, job_.gradient, context.id()).value();
        return there - i * i + context.gradients({mine})[0].select(0, 0).item<double>() - 2 * i;
      }));
    }
    double wrong = 0;
    for (const auto& task : tasks) wrong += std::abs(task.wait());
    say(worker, fmt::format("{}", wrong));
  };
  job_.on_others = trainers;
  EXPECT_EQ(say_in_job(4, trainers), (Said(4, "0")));
}

}  // namespace
}  // namespace rehearse::programs
