// Remote references: values that stay with their owner, and who may use them for how long.

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/programs/small_job.hpp"

namespace rehearse::programs {

// A value that leads to another one.
struct Ring {
  RemoteRef<Ring> next;
};

}  // namespace rehearse::programs

template <>
struct rehearse::Fields<rehearse::programs::Ring> {
  static constexpr std::string_view name = "Ring";
  template <class Visitor>
  static void visit(Visitor&& visitor, programs::Ring& ring) {
    visitor(ring.next);
  }
};

namespace rehearse::programs {
namespace {

using namespace std::chrono_literals;

class References : public testing::TestWithParam<In> {
 protected:
  Said say_in_job(int workers, SmallJob::Body body, const std::set<int>& dead = {}) {
    setup_.workers = workers;
    setup_.keep_events = true;
    outcome_ = job_.run(GetParam(), setup_, std::move(body));
    EXPECT_EQ(complaints(outcome_, dead), "");
    return said(outcome_);
  }

  SmallJob job_;
  JobSetup setup_;
  RunOutcome outcome_;

  Function<int(int)> twice_ = job_.program.function("twice", [](int x) { return 2 * x; });
  Function<int(RemoteRef<int>)> read_ = job_.program.function(
      "read", [](RemoteRef<int> ref) { return ref.confirmed() ? ref.to_here() : -1; });
};
INSTANTIATE_TEST_SUITE_P(InEveryWorld, References, testing::ValuesIn(worlds()),
                         testing::PrintToStringParamName());

// The value is made on the owner, read from elsewhere and from itself, and known by name.
TEST_P(References, LeadToAValueOnItsOwner) {
  const auto nothing = job_.program.function("nothing", [] {});
  const auto told = say_in_job(2, [&](Worker& worker) {
    const auto there = worker.rpc().remote("w1", twice_, 21);
    say(worker, fmt::format("{} {} {}", there.owner(), there.owner_name(), there.is_owner()));
    say(worker, fmt::format("{} {}", there.to_here(), there.to_here()));
    say(worker, outcome_of([&] { there.local_value(); }));
    const auto here = worker.rpc().remote(0, twice_, 4);
    here.local_value() += 1;
    say(worker, fmt::format("{} {} {}", here.is_owner(), here.local_value(), here.to_here()));
    const auto own = worker.remote_ref(std::string("mine"));
    say(worker, fmt::format("{} {} {}", own.confirmed(), own.local_value(), own.to_here()));
    worker.rpc().remote(1, nothing).to_here();
    say(worker, outcome_of([&] { RemoteRef<int>().to_here(); }));
  });
  EXPECT_EQ(told, (Said{"1 w1 false", "42 42",
                        "bad_argument -: local_value: the value is on w1, not here; use to_here",
                        "true 9 9", "true mine mine",
                        "bad_argument -: this remote reference refers to nothing"}));
}

// The temporary reference is gone before the question is answered.
TEST_P(References, AreKeptByAFetchThatIsUnderWay) {
  EXPECT_EQ(say_in_job(2,
                       [&](Worker& worker) {
                         const auto value = worker.rpc().remote(1, twice_, 3).fetch();
                         say(worker, fmt::format("{}", value.wait()));
                       }),
            Said{"6"});
}

// As an argument to the owner, to a third worker, back again, and along eight workers; each handler
// finds it confirmed when it starts.
TEST_P(References, MayBePassedToAnybodyWhoFindsThemConfirmed) {
  const Function<int(RemoteRef<int>, int)> pass("pass");
  job_.program.function(pass.name(), [pass](Worker& worker, RemoteRef<int> ref, int hops) {
    if (!ref.confirmed()) return -1;
    if (hops == 0) return ref.is_owner() ? ref.local_value() : ref.to_here();
    return worker.rpc().call((worker.rank() + 1) % worker.world_size(), pass, ref, hops - 1);
  });
  const auto told = say_in_job(8, [&](Worker& worker) {
    const auto ref = worker.rpc().remote(1, twice_, 5);
    for (const int to : {0, 1, 2})
      say(worker, fmt::format("{}", worker.rpc().call(to, pass, ref, 0)));
    say(worker, fmt::format("{}", worker.rpc().call(1, pass, ref, 8)));
  });
  EXPECT_EQ(told, (Said{"10", "10", "10", "10"}));
}

// In vectors and structs of arguments, in results, and as the value behind another reference.
TEST_P(References, CrossInsideOtherValues) {
  using Refs = std::vector<RemoteRef<int>>;
  const auto sum = job_.program.function(
      "sum", [](std::map<std::string, Refs> refs, std::optional<RemoteRef<int>> more) {
        int total = more->to_here();
        for (const auto& [name, of] : refs) {
          for (const auto& ref : of) total += ref ? ref.to_here() : 100;
        }
        return total;
      });
  const auto make = job_.program.function("make", [this](Worker& worker) {
    return Refs{worker.remote_ref(7), worker.rpc().remote(2, twice_, 4)};
  });
  const auto behind = job_.program.function(
      "behind", [](Worker& worker) { return worker.remote_ref(worker.rank() + 30); });
  const auto told = say_in_job(3, [&](Worker& worker) {
    const Refs refs = worker.rpc().call(1, make);
    say(worker, fmt::format("{} {}", refs[0].to_here(), refs[1].to_here()));
    say(worker, fmt::format("{}", worker.rpc().call(
                                      2, sum, {{"a", refs}, {"b", {RemoteRef<int>()}}}, refs[0])));
    const RemoteRef<RemoteRef<int>> nested = worker.rpc().remote(2, behind);
    say(worker, fmt::format("{}", nested.to_here().to_here()));
  });
  EXPECT_EQ(told, (Said{"7 8", "122", "32"}));
}

TEST_P(References, GiveTheErrorOfWhatMadeThemAtEveryUse) {
  const auto bad =
      job_.program.function("bad", [](Worker&, int) -> int { throw std::out_of_range("beyond"); });
  const auto told = say_in_job(3, [&](Worker& worker) {
    const auto ref = worker.rpc().remote(1, bad, 1);
    say(worker, outcome_of([&] { ref.to_here(); }));
    say(worker, outcome_of([&] { ref.to_here(); }));
    say(worker, outcome_of([&] { worker.rpc().call(2, read_, ref); }));
    const Function<int(int)> missing("missing");
    say(worker, outcome_of([&] { worker.rpc().remote(1, missing, 1).to_here(); }));
  });
  const std::string thrown = "remote_exception w1: std::out_of_range: beyond";
  EXPECT_EQ(told,
            (Said{thrown, thrown, thrown, "unknown_function w1: no function is named 'missing'"}));
}

// The owner stands still while the request waits to be served: fetching, passing on and using fail
// alike, by the owner's name; the value that is made in the end is not kept.
TEST_P(References, WhoseCreationTimedOutFailAlikeAtEveryUse) {
  const auto begun =
      job_.program.function("begun", [](Worker& worker) { ++worker.local<Leaf>().marks; });
  const auto busy = job_.program.function("busy", [begun](Worker& worker) {
    worker.rpc().call(0, begun);
    // Longer than the deadline below, without a switch to the task that receives.
    worker.world().compute.charge({std::int64_t{1} << 40, 0});
    if (!is_virtual(GetParam())) {
      const Time until = worker.clock().now() + 300ms;
      while (worker.clock().now() < until) {
      }
    }
  });
  const auto told = say_in_job(3, [&](Worker& worker) {
    const auto blocked = worker.rpc().async(1, busy);
    while (worker.local<Leaf>().marks == 0) worker.clock().sleep_until(worker.clock().now() + 1ms);
    worker.clock().sleep_until(worker.clock().now() + 5ms);
    CallOptions soon;
    soon.deadline = 20ms;
    const auto ref = worker.rpc().remote(soon, 1, twice_, 1);
    CallOptions wait;
    wait.deadline = 100s;
    worker.clock().sleep_until(worker.clock().now() + 50ms);
    say(worker, outcome_of([&] { ref.to_here(wait); }));
    say(worker, outcome_of([&] { ref.to_here(wait); }));
    say(worker, outcome_of([&] { worker.rpc().call(2, read_, ref); }));
    say(worker, ref.confirmed() ? "confirmed" : "not confirmed");
    blocked.wait();
    say(worker, outcome_of([&] { ref.to_here(); }));
  });
  const std::string late = "timed_out w1: no reply to twice from w1 before the deadline";
  EXPECT_EQ(told, (Said{late, late, late, "not confirmed", late}));
}

// A fetch that gives up says so, and harms nothing.
TEST_P(References, OutliveAFetchThatTimedOut) {
  const auto slow = job_.program.function("slow", [](Worker& worker) {
    worker.clock().sleep_until(worker.clock().now() + 100ms);
    return 5;
  });
  const auto told = say_in_job(2, [&](Worker& worker) {
    const auto ref = worker.rpc().remote(1, slow);
    CallOptions soon;
    soon.deadline = 10ms;
    say(worker, outcome_of([&] { ref.to_here(soon); }));
    say(worker, fmt::format("{}", ref.to_here()));
  });
  EXPECT_EQ(told, (Said{"timed_out w1: no reply to fetch from w1 before the deadline", "5"}));
}

// The owner dies: every use fails with its name, passing on included.
TEST_P(References, ToALostOwnerFailWithItsName) {
  const auto die = job_.program.function("die", [](Worker& worker) { worker.phase("die"); });
  setup_.faults = {kill_at_phase(1, 0, "die")};
  const auto told = say_in_job(
      3,
      [&](Worker& worker) {
        worker.step(0);
        const auto ref = worker.rpc().remote(1, twice_, 2);
        say(worker, fmt::format("{}", ref.to_here()));
        dist_autograd::Context context(worker);
        say(worker, outcome_of([&] { worker.rpc().call(1, die); }).substr(0, 13));
        say(worker, outcome_of([&] { ref.to_here(); }).substr(0, 13));
        say(worker, outcome_of([&] { worker.rpc().call(2, read_, ref); }).substr(0, 13));
        say(worker, outcome_of([&] { worker.rpc().remote(1, twice_, 2).to_here(); }).substr(0, 13));
      },
      {1});
  EXPECT_EQ(told, (Said{"4", "peer_lost w1:", "peer_lost w1:", "peer_lost w1:", "peer_lost w1:"}));
}

// Who holds a reference dies: the owner frees the value, and the run ends with nothing left.
TEST_P(References, OfALostHolderAreGivenUp) {
  const auto keep = job_.program.function("keep", [](Worker& worker, RemoteRef<int> ref) {
    worker.local<std::vector<RemoteRef<int>>>().push_back(ref);
  });
  const auto die = job_.program.function("die", [](Worker& worker) { worker.phase("die"); });
  setup_.faults = {kill_at_phase(2, 0, "die")};
  const auto told =
      say_in_job(3,
                 [&](Worker& worker) {
                   worker.step(0);
                   {
                     const auto ref = worker.rpc().remote(1, twice_, 2);
                     worker.rpc().call(2, keep, ref);
                   }
                   dist_autograd::Context context(worker);
                   say(worker, outcome_of([&] { worker.rpc().call(2, die); }).substr(0, 13));
                 },
                 {2});
  EXPECT_EQ(told, Said{"peer_lost w2:"});
}

// What programs keep is given up when all have ended.
TEST_P(References, KeptByProgramsAreNotLeftAtTheEnd) {
  using Kept = std::vector<RemoteRef<int>>;
  const auto keep = job_.program.function(
      "keep", [](Worker& worker, RemoteRef<int> ref) { worker.local<Kept>().push_back(ref); });
  EXPECT_EQ(say_in_job(2,
                       [&](Worker& worker) {
                         worker.local<Kept>().push_back(worker.rpc().remote(1, twice_, 2));
                         worker.rpc().call(1, keep, worker.remote_ref(3));
                       }),
            Said{});
}

// Nobody can free a circle over two workers: it is counted, not passed over in silence. (Who ends
// last finds its part free: the other is gone.)
TEST_P(References, InACircleAreCountedAsLeft) {
  const auto link = job_.program.function(
      "link", [](Worker& worker, RemoteRef<Ring> first) { return worker.remote_ref(Ring{first}); });
  setup_.limits.linger = 100ms;
  outcome_ = job_.run(GetParam(), setup_, [&](Worker& worker) {
    const auto ring = worker.remote_ref(Ring{});
    ring.local_value().next = worker.rpc().call(1, link, ring);
  });
  EXPECT_GE(outcome_.counters.at("values_live"), 1);
  EXPECT_GE(outcome_.counters.at("references_live"), 1);
}

// Within a context, gradients pass through what makes a value, through fetching it, and through
// fetching it on a worker that it was passed to; the uncut run agrees on the bits.
TEST_P(References, KeepTensorsConnected) {
  const auto use = job_.program.function(
      "use", [](Worker& worker, RemoteRef<Tensor> ref) { return ref.to_here() * leaf_of(worker); });
  const auto parameter = job_.program.function(
      "parameter", [](Worker& worker) { return worker.remote_ref(leaf_of(worker)); });
  const SmallJob::Body body = [&](Worker& worker) {
    dist_autograd::Context context(worker);
    const auto weight = worker.rpc().call(2, parameter);
    const auto made = worker.rpc().remote(1, job_.times, leaf_of(worker));  // 2 * 3
    const Tensor fetched = made.to_here();
    const Tensor passed = worker.rpc().call(2, use, made);  // 2 * 3 * 4
    context.backward((fetched + passed * weight.to_here()).sum());
    // 2 * 3 + 2 * 3 * 4 * 4, by each of the three leaves
    say(worker, job_.gradients(worker, context.id()));
  };
  EXPECT_EQ(say_in_job(3, body), Said{"51 34 48"});
  EXPECT_FALSE(outcome_.journal.empty());
  EXPECT_EQ(outcome_.journal, run_uncut(job_.program, setup_).journal);
}

}  // namespace
}  // namespace rehearse::programs
