// Calls, futures and their errors, in every world.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <stdexcept>
#include <tuple>

#include "tests/programs/small_job.hpp"

namespace rehearse::programs {

// A user's struct, nested in another one.
struct Corner {
  std::int32_t x = 0;
  float y = 0;
};
struct Note {
  std::string text;
  std::vector<Corner> corners;
  Tensor tensor;
};

}  // namespace rehearse::programs

template <>
struct rehearse::Fields<rehearse::programs::Corner> {
  static constexpr std::string_view name = "Corner";
  template <class Visitor>
  static void visit(Visitor&& visitor, programs::Corner& corner) {
    visitor(corner.x);
    visitor(corner.y);
  }
};
template <>
struct rehearse::Fields<rehearse::programs::Note> {
  static constexpr std::string_view name = "Note";
  template <class Visitor>
  static void visit(Visitor&& visitor, programs::Note& note) {
    visitor(note.text);
    visitor(note.corners);
    visitor(note.tensor);
  }
};

namespace rehearse::programs {
namespace {

using namespace std::chrono_literals;

class Calls : public testing::TestWithParam<In> {
 protected:
  Said say_in_job(int workers, SmallJob::Body body) {
    JobSetup setup(workers, 1);
    setup.keep_events = true;
    outcome_ = job_.run(GetParam(), setup, std::move(body));
    EXPECT_EQ(complaints(outcome_), "");
    return said(outcome_);
  }
  SmallJob job_;
  RunOutcome outcome_;
};
INSTANTIATE_TEST_SUITE_P(InEveryWorld, Calls, testing::ValuesIn(worlds()),
                         testing::PrintToStringParamName());

// A to B to A to B …, 50 deep, to a worker with lower and with higher rank; and to itself.
TEST_P(Calls, NestToAnyDepth) {
  const Function<int(int, int)> down("down");
  job_.program.function(down.name(), [down](Worker& worker, int depth, int stride) -> int {
    if (depth == 0) return worker.rank();
    const int next = (worker.rank() + stride) % worker.world_size();
    return 10 + worker.rpc().call(next, down, depth - 1, stride);
  });
  EXPECT_EQ(say_in_job(3,
                       [&](Worker& worker) {
                         for (const int stride : {0, 1, 2}) {
                           say(worker, fmt::format("{}", worker.rpc().call(1, down, 50, stride)));
                         }
                       }),
            (Said{"501", "500", "502"}));
}

// Bulky, but too small for torch to start threads: later tests of this process fork.
TEST_P(Calls, ByTheHundredAreAllAnswered) {
  const auto twice = job_.program.function("twice", [](std::int64_t x) { return 2 * x; });
  const auto heavy = job_.program.function("heavy", [](Tensor x) { return x + 1; });
  EXPECT_EQ(say_in_job(3,
                       [&](Worker& worker) {
                         std::vector<Future<std::int64_t>> light;
                         std::vector<Future<Tensor>> bulky;
                         for (int i = 0; i < 1000; ++i)
                           light.push_back(worker.rpc().async(1 + i % 2, twice, i));
                         for (int i = 0; i < 20; ++i) {
                           bulky.push_back(
                               worker.rpc().async(1 + i % 2, heavy, at::zeros({1 << 14}) + i));
                         }
                         std::int64_t sum = 0;
                         double last = 0;
                         for (const auto& future : light) sum += future.wait();
                         for (const auto& future : bulky)
                           last += future.wait().select(0, -1).item<double>();
                         say(worker, fmt::format("{} {}", sum, last));
                       }),
            Said{"999000 210"});
}

TEST_P(Calls, TakeEveryTypeOfArgument) {
  using All =
      std::tuple<bool, std::int8_t, std::uint64_t, double, std::string, std::optional<float>,
                 std::map<std::string, std::vector<int>>, std::pair<int, bool>>;
  const auto echo = job_.program.function("echo", [](All all) { return all; });
  const auto note = job_.program.function("note", [](Note given) {
    given.corners.push_back({7, 0.5F});
    given.tensor = given.tensor * 2;
    return given;
  });
  EXPECT_EQ(
      say_in_job(2,
                 [&](Worker& worker) {
                   const All all{true,
                                 -3,
                                 ~0ULL,
                                 -0.0,
                                 std::string("a\0b", 3),
                                 std::nullopt,
                                 {{"k", {1, 2}}, {"", {}}},
                                 {4, false}};
                   say(worker, worker.rpc().call("w1", echo, all) == all ? "same" : "other");
                   const Note back = worker.rpc().call(1, note, Note{"n", {{1, 2}}, filled(3)});
                   say(worker,
                       fmt::format("{} {} {} {}", back.text, back.corners.size(), back.corners[1].y,
                                   back.tensor.select(0, 0).item<double>()));
                 }),
      (Said{"same", "n 2 0.5 6"}));
}

// Sizes, strides, dtype and all bits, NaN payloads too.
TEST_P(Calls, KeepTensorsAsTheyAre) {
  const auto same =
      job_.program.function("same", [](std::vector<Tensor> tensors) { return tensors; });
  const auto equal = [](const Tensor& a, const Tensor& b) {
    if (a.defined() != b.defined()) return false;
    if (!a.defined()) return true;
    const Tensor x = a.contiguous(), y = b.contiguous();
    return a.sizes() == b.sizes() && a.strides() == b.strides() && a.dtype() == b.dtype() &&
           (x.nbytes() == 0 ||
            std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0);
  };
  EXPECT_EQ(
      say_in_job(2,
                 [&](Worker& worker) {
                   Tensor nan = at::empty({1}, at::kFloat);
                   const std::uint32_t bits = 0x7fa12345;
                   std::memcpy(nan.mutable_data_ptr(), &bits, sizeof bits);
                   std::vector<Tensor> tensors{nan,           at::zeros({3, 4}).t(),
                                               at::zeros({}), at::zeros({0, 3}),
                                               Tensor(),      at::zeros({2, 3, 4}).transpose(0, 2)};
                   for (const at::ScalarType type :
                        {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf,
                         at::kBFloat16, at::kFloat, at::kDouble, at::kBool, at::kComplexFloat}) {
                     tensors.push_back(at::empty({2}, at::kFloat).fill_(1).to(type));
                   }
                   const auto back = worker.rpc().call(1, same, tensors);
                   std::string differ;
                   for (std::size_t i = 0; i < tensors.size(); ++i) {
                     if (!equal(tensors[i], back.at(i))) differ += fmt::format("{} ", i);
                   }
                   say(worker, "differ: " + differ);
                 }),
      Said{"differ: "});
}

TEST_P(Calls, ThatCannotBeMadeSayWhy) {
  const auto told = say_in_job(2, [&](Worker& worker) {
    Rpc& rpc = worker.rpc();
    const Function<int(int)> missing("missing"), other_signature("times");
    say(worker, outcome_of([&] { rpc.call(1, missing, 1); }));
    say(worker, outcome_of([&] { rpc.call(1, other_signature, 1); }));
    say(worker, outcome_of([&] { rpc.call(2, job_.times, filled(1)); }));
    say(worker, outcome_of([&] { rpc.call("host1", job_.times, filled(1)); }));
  });
  EXPECT_EQ(told,
            (Said{"unknown_function w1: no function is named 'missing'",
                  "bad_argument w1: 'times' is Tensor(Tensor), but was called with other types",
                  "unknown_worker -: no worker is rank 2; this job has w0 to w1",
                  "unknown_worker -: no worker is 'host1'; this job has w0 to w1"}));
}

// Over two hops: the worker where it was thrown is named, once.
TEST_P(Calls, BringBackTypeAndTextOfWhatWasThrown) {
  const auto bad = job_.program.function("bad", [](Worker&, int which) -> int {
    if (which == 0) throw std::out_of_range("beyond");
    if (which == 1) throw 5;
    return at::zeros({2, 3}).mm(at::zeros({2, 3})).size(0);
  });
  const auto relay = job_.program.function(
      "relay", [bad](Worker& worker, int which) { return worker.rpc().call(2, bad, which); });
  const auto told = say_in_job(3, [&](Worker& worker) {
    for (const int which : {0, 1, 2}) {
      say(worker, outcome_of([&] { worker.rpc().call(1, relay, which); }).substr(0, 60));
    }
  });
  EXPECT_EQ(told, (Said{"remote_exception w2: std::out_of_range: beyond",
                        "remote_exception w2: an exception that is no std::exception",
                        "remote_exception w2: c10::Error: mat1 and mat2 shapes cannot"}));
}

TEST_P(Calls, ChainContinuationsAndTheirErrors) {
  const auto twice = job_.program.function("twice", [](int x) { return 2 * x; });
  const auto told = say_in_job(2, [&](Worker& worker) {
    const auto first = worker.rpc().async(1, twice, 5);
    const auto chained =
        first.then([&](const Future<int>& x) { return worker.rpc().call(1, twice, x.wait()); })
            .then([](const Future<int>& x) { return x.wait() + 1; });
    const auto broken =
        first.then([](const Future<int>&) -> int { throw std::runtime_error("no"); })
            .then([](const Future<int>& x) { return x.wait(); });
    say(worker, fmt::format("{} {} {}", chained.wait(), chained.wait(), first.wait()));
    say(worker, outcome_of([&] { broken.wait(); }));
    say(worker,
        fmt::format("{}", first.then([](const Future<int>& x) { return x.wait(); }).wait()));
  });
  EXPECT_EQ(told, (Said{"21 21 10", "remote_exception w0: std::runtime_error: no", "10"}));
}

// The first call outlasts its deadline; its answer comes in before that of the second, on the same
// lane, and is dropped.
TEST_P(Calls, GiveUpAtTheirOwnDeadlineAndDropLateReplies) {
  const auto slow = job_.program.function("slow", [](Worker& worker, int length_ms) {
    worker.clock().sleep_until(worker.clock().now() + length_ms * 1ms);
    return length_ms;
  });
  const auto told = say_in_job(2, [&](Worker& worker) {
    CallOptions soon, never;
    soon.deadline = 20ms;
    never.deadline = Duration::max();
    say(worker, outcome_of([&] { worker.rpc().call(soon, 1, slow, 200); }));
    say(worker, fmt::format("{}", worker.rpc().call(never, 1, slow, 300)));
    say(worker, fmt::format("{}", worker.rpc().call(CallOptions{}, 1, slow, 10)));
    const auto patient = worker.rpc().async(1, slow, 30);
    say(worker, outcome_of([&] { patient.wait(worker.clock().now() + 1ms); }));
    say(worker, fmt::format("{}", patient.wait()));
  });
  EXPECT_EQ(told, (Said{"timed_out w1: no reply to slow from w1 before the deadline", "300", "10",
                        "timed_out w1: no reply to slow from w1 before the deadline", "30"}));
  EXPECT_EQ(count(outcome_, 0, EventKind::late_reply), 1);
}

// What a handler calls in turn cannot outlast the request that it serves.
TEST_P(Calls, PassTheirDeadlineOn) {
  const auto never = job_.program.function("never", [](Worker& worker) {
    worker.promise<void>("nothing").future().wait(worker.clock().now() + 2s);
  });
  const auto relay = job_.program.function("relay", [never](Worker& worker) {
    worker.local<Leaf>().marks =
        outcome_of([&] { worker.rpc().call(0, never); }).starts_with("timed_out w0") ? 1 : 2;
  });
  const auto marks = job_.program.function("marks", [](Worker& worker) {
    while (worker.local<Leaf>().marks == 0) worker.clock().sleep_until(worker.clock().now() + 1ms);
    return worker.local<Leaf>().marks;
  });
  const auto told = say_in_job(2, [&](Worker& worker) {
    CallOptions soon;
    soon.deadline = 50ms;
    say(worker, outcome_of([&] { worker.rpc().call(soon, 1, relay); }).substr(0, 13));
    say(worker, fmt::format("{}", worker.rpc().call(1, marks)));
  });
  EXPECT_EQ(told, (Said{"timed_out w1:", "1"}));
}

}  // namespace
}  // namespace rehearse::programs
