// What a live context and a call in flight cost, and whether the cost of each grows with their
// number: two workers in the memory world, so that time is processor time, of both together. Memory
// is what the heap holds, and, the first time, what became resident: stacks of tasks too.
//
//   bench_autograd_scale [--rounds 3] [--json FILE]

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/rand.h>
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/figures.hpp"
#include "runtime/virtual/constant_physics.hpp"
#include "runtime/virtual/job.hpp"
#include "runtime/worker/dist_autograd.hpp"
#include "runtime/worker/worker_main.hpp"

namespace rehearse::bench {
namespace {

using at::Tensor;

/// Of the process, or of each of what is measured.
struct Cost {
  double resident_kib = 0, heap_kib = 0, us = 0;
};

Cost memory_now() {
  std::ifstream file("/proc/self/statm");
  double total_pages = 0, resident_pages = 0;
  file >> total_pages >> resident_pages;
  const auto heap = ::mallinfo2();
  return {resident_pages * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1024,
          static_cast<double>(heap.uordblks + heap.hblkhd) / 1024, 0};
}

Cost memory_since(const Cost& before, int count) {
  const Cost now = memory_now();
  return {(now.resident_kib - before.resident_kib) / count,
          (now.heap_kib - before.heap_kib) / count, 0};
}

class Bench {
 public:
  Bench() {
    program_.function(scale_.name(), [](Tensor x) { return x * 2; });
    program_.function(wait_.name(), [this](Worker& worker, Tensor x) {
      auto& gate = worker.local<std::optional<Promise<void>>>();
      if (!gate) gate = worker.promise<void>("the gate");
      gate->future().wait();
      return x;
    });
    program_.function(open_.name(), [](Worker& worker) {
      worker.local<std::optional<Promise<void>>>()->fulfil([] {});
      worker.local<std::optional<Promise<void>>>().reset();
    });
    program_.workload("scale", [this](Worker& worker) {
      if (worker.rank() == 0) body_(worker);
    });
  }

  /// `count` contexts at once, each with a call, a pass and the gradients of it.
  Cost contexts(int count) {
    return measure([&, count](Worker& worker, Cost& cost) {
      std::vector<Future<void>> tasks;
      Promise<void> all = worker.promise<void>("all contexts");
      int left = count;
      const Cost before = memory_now();
      const auto start = SteadyClock::now();
      for (int i = 0; i < count; ++i) {
        tasks.push_back(worker.spawn("trainer", [&] {
          dist_autograd::Context context(worker);
          const Tensor x = at::rand({4}).set_requires_grad(true);
          context.backward(worker.rpc().call(1, scale_, x).sum());
          if (context.gradients().size() != 1) throw Error(Code::pass_failed, "no gradient");
          if (--left == 0) {
            cost = memory_since(before, count);
            cost.us = microseconds_since(start) / count;
            all.fulfil([] {});
          }
          all.future().wait();
        }));
      }
      for (const auto& task : tasks) task.wait();
    });
  }

  /// `count` calls of which no reply has come; then all replies.
  Cost calls(int count) {
    return measure([&, count](Worker& worker, Cost& cost) {
      const Tensor x = at::rand({4});
      const Cost before = memory_now();
      const auto start = SteadyClock::now();
      std::vector<Future<Tensor>> futures;
      for (int i = 0; i < count; ++i) futures.push_back(worker.rpc().async(1, wait_, x));
      worker.rpc().call(1, scale_, x);  // behind all of them
      cost = memory_since(before, count);
      worker.rpc().call(1, open_);
      for (const auto& future : futures) future.wait();
      cost.us = microseconds_since(start) / count;
    });
  }

 private:
  Cost measure(const std::function<void(Worker&, Cost&)>& body) {
    Cost cost;
    body_ = [&](Worker& worker) { body(worker, cost); };
    virtual_world::ConstantPhysics physics;
    virtual_world::JobOptions options;
    options.limits.contexts_open = 1 << 20;
    virtual_world::Job world(physics, std::move(options));
    JobSpec job;
    job.workload = "scale";
    for (int rank = 0; rank < 2; ++rank) {
      world.add(fmt::format("w{}", rank), static_cast<virtual_world::HostId>(rank),
                [&](World& at) { worker_main(at, program_, job); });
    }
    const RunOutcome outcome = world.run();
    for (const auto& worker : outcome.workers) {
      if (worker.failure) throw Error(*worker.failure);
    }
    return cost;
  }

  Program program_{"bench_autograd_scale"};
  Function<Tensor(Tensor)> scale_{"scale"}, wait_{"wait"};
  Function<void()> open_{"open"};
  std::function<void(Worker&)> body_;
};

nlohmann::json run(int rounds) {
  at::set_num_threads(1);
  Bench bench;
  auto rows = nlohmann::json::array();
  const auto add = [&](const std::string& name, auto&& measure, int few, int many) {
    const Cost first = measure(many);
    rows.push_back(
        json_of({fmt::format("{}_{}_resident", name, many), "KiB", {first.resident_kib}, {}, {}}));
    for (const int count : {few, many}) {
      Samples kib, us;
      for (int round = 0; round < rounds; ++round) {
        const Cost cost = measure(count);
        kib.push_back(cost.heap_kib);
        us.push_back(cost.us);
      }
      rows.push_back(json_of({fmt::format("{}_{}_heap", name, count), "KiB", kib, {}, {}}));
      rows.push_back(json_of({fmt::format("{}_{}_time", name, count), "us", us, {}, {}}));
    }
  };
  add(
      "context_of", [&](int count) { return bench.contexts(count); }, 100, 1000);
  add(
      "call_of", [&](int count) { return bench.calls(count); }, 100, 10'000);
  return rows;
}

}  // namespace
}  // namespace rehearse::bench

int main(int argc, char** argv) {
  CLI::App app{"What live contexts and calls in flight cost a worker"};
  int rounds = 3;
  std::string json;
  app.add_option("--rounds", rounds);
  app.add_option("--json", json);
  CLI11_PARSE(app, argc, argv);
  return rehearse::bench::publish(rehearse::bench::run(rounds), json);
}
