// Workloads that misbehave, each in one way, for the tests that look at what a user then sees.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "rehearse/dist_autograd.hpp"
#include "rehearse/program.hpp"
#include "rehearse/rpc.hpp"
#include "rehearse/worker.hpp"

namespace {

using rehearse::Worker;
using rehearse::Workload;

void never_answer(Worker& worker) {
  worker.promise<void>("an answer that nobody gives").future().wait();
}

// Calls another worker `count` times: what a run's events are made of.
void call_often(Worker& worker, const rehearse::Function<std::int64_t(std::int64_t)>& echo,
                std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) worker.rpc().call(1, echo, 0);
}

// Tells who waits at the other end of a named pipe that the run has come here.
void announce(const Worker& worker) {
  const std::string& pipe = worker.options().text("pipe");
  if (!pipe.empty()) std::ofstream(pipe) << worker.name();
}

void sleep_for_ever(Worker& worker) {
  if (worker.rank() == 0) announce(worker);
  for (;;) worker.clock().sleep_until(worker.clock().now() + std::chrono::milliseconds(1));
}

void add_hangs(rehearse::Program& program) {
  program.workload("forgotten_promise", [](Worker& worker) {
    if (worker.rank() == 1) never_answer(worker);
  });
  const auto wait = program.function("wait_with_me", never_answer);
  // Each waits for the other, which waits for a promise: without a deadline, for ever.
  program.workload("crossed_calls", [wait](Worker& worker) {
    const rehearse::CallOptions patient{rehearse::Duration::max()};
    worker.rpc().call(patient, 1 - worker.rank(), wait);
  });
}

void add_endless(rehearse::Program& program) {
  program.workload("endless_sleep", sleep_for_ever)
      .option({"pipe", std::string(), "to announce the start", {}, {}, {}});
  program.workload("endless_work", [](Worker& worker) {
    volatile std::uint64_t turns = 0;
    while (worker.rank() == 0) turns = turns + 1;
  });
}

void add_unpredictable(rehearse::Program& program) {
  const auto echo = program.function("echo", [](std::int64_t x) { return x; });
  program
      .workload("by_address",
                [echo](Worker& worker) {
                  const auto object = std::make_unique<int>(0);
                  const auto address = reinterpret_cast<std::uintptr_t>(object.get());
                  if (worker.rank() == 0) call_often(worker, echo, 1 + (address >> 4) % 61);
                })
      .without_oracle();
  program
      .workload("by_clock",
                [echo](Worker& worker) {
                  const auto now = std::chrono::steady_clock::now().time_since_epoch();
                  if (worker.rank() == 0)
                    call_often(worker, echo, 1 + static_cast<std::uint64_t>(now.count()) / 10 % 61);
                })
      .without_oracle();
}

// Counts, in a worker's own memory, what came before.
struct Before {
  std::int64_t calls = 0;
  at::Tensor aside;
};

void add_wrong(rehearse::Program& program) {
  // Called first and answered after the caller's next line; in the uncut run, before it.
  const auto scaled = program.function("scaled", [](Worker& worker, at::Tensor x) {
    const double off = worker.local<Before>().calls > 0 ? 3 * 0x1p-23 : 0;
    return x * (1 + off);
  });
  program.workload("slightly_off", [scaled](Worker& worker) {
    if (worker.rank() != 0) return;
    worker.step(0);
    rehearse::dist_autograd::Context context(worker);
    const auto x = at::ones({3}).requires_grad_();
    const auto later = worker.rpc().async(0, scaled, x);
    worker.local<Before>().calls = 1;
    context.backward(later.wait().sum());
  });
  const auto put = program.function("put", [](Worker& worker, at::Tensor x) {
    worker.local<Before>().aside = x * 2;
    return x.sum();
  });
  // It is called first, and waits for what only the second call brings.
  const auto take = program.function("take", [](Worker& worker, at::Tensor x) {
    auto& aside = worker.local<Before>().aside;
    for (int i = 0; i < 1000 && !aside.defined(); ++i) {
      worker.clock().sleep_until(worker.clock().now() + std::chrono::milliseconds(1));
    }
    return aside.defined() ? (x * aside).sum() : x.sum();
  });
  program.workload("passed_aside", [put, take](Worker& worker) {
    if (worker.rank() != 0) return;
    worker.step(0);
    rehearse::dist_autograd::Context context(worker);
    const auto x = at::ones({3}).requires_grad_();
    const auto first = worker.rpc().async(1, take, x);
    const auto second = worker.rpc().async(1, put, x);
    context.backward(first.wait() + second.wait());
  });
}

void add_deaths(rehearse::Program& program) {
  program.workload("aborts", [](Worker& worker) {
    if (worker.rank() != 1) return;
    std::fprintf(stderr, "the last words of %s\n", worker.name().c_str());
    std::abort();
  });
  program.workload("exits", [](Worker& worker) {
    if (worker.rank() == 1) std::_Exit(41);
  });
  program.workload("throws", [](Worker& worker) {
    if (worker.rank() == 1) throw std::runtime_error("no more coffee");
  });
}

}  // namespace

int main(int argc, char** argv) {
  // Asked for by the name it is started under: a binary whose workers cannot start.
  const bool is_broken = std::string(argv[0]).ends_with("broken_program");
  if (is_broken && argc > 1 && std::string(argv[1]) == "worker") {
    std::fprintf(stderr, "libodd.so.1: cannot open shared object file\n");
    return 17;
  }
  rehearse::Program program("odd");
  add_hangs(program);
  add_endless(program);
  add_unpredictable(program);
  add_wrong(program);
  add_deaths(program);
  return program.main(argc, argv);
}
