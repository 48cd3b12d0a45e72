// Round trips of a function that returns its tensor, between two processes of one host, each
// beside a
// bare blocking TCP ping-pong of the same bytes in the same processes, in turn; then messages a
// second with many calls under way.
//
//   bench_rpc [--rounds 7] [--size 16MiB] [--transport tcp|shm] [--json FILE]

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/rand.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <deque>
#include <nlohmann/json.hpp>

#include "bench/bare_tcp.hpp"
#include "bench/figures.hpp"
#include "bench/local_job.hpp"
#include "runtime/worker/worker.hpp"

namespace rehearse::bench {
namespace {

using at::Tensor;

struct Size {
  const char* name;
  std::int64_t bytes;
  int round_trips;
};
constexpr std::array kSizes{Size{"1KiB", 1 << 10, 2000}, Size{"64KiB", 64 << 10, 600},
                            Size{"1MiB", 1 << 20, 100}, Size{"16MiB", 16 << 20, 12}};
constexpr std::size_t kInFlight = 64;
// Messages, many of them under way at once.
constexpr std::array kPipelined{Size{"1KiB", 1 << 10, 20'000}, Size{"16MiB", 16 << 20, 256}};
constexpr int kOther = 1;

class Bench {
 public:
  Bench(int rounds, std::string only, real::Transport transport)
      : rounds_(rounds),
        transport_(transport),
        only_(std::move(only)),
        pair_(bare_pair()),
        identity_(program_.function("identity", [](Tensor x) { return x; })),
        echo_(program_.function("echo", [this](std::int64_t bytes, std::int64_t times) {
          bare_echo(pair_[kOther], static_cast<std::size_t>(bytes), static_cast<int>(times),
                    buffer_);
        })) {
    program_.workload("rpc", [this](Worker& worker) {
      if (worker.rank() == 0) fmt::print("{}", measure(worker.rpc()).dump());
    });
  }

  nlohmann::json run() {
    return nlohmann::json::parse(run_local(2, program_, "rpc", {.transport = transport_}));
  }

 private:
  nlohmann::json measure(Rpc& rpc) {
    at::set_num_threads(1);
    auto rows = nlohmann::json::array();
    for (const Size& size : kSizes) {
      if (only_.empty() || only_ == size.name) rows.push_back(json_of(round_trip(rpc, size)));
    }
    for (const Size& size : kPipelined) {
      if (!only_.empty() && only_ != size.name) continue;
      Figure figure{
          fmt::format("rpc_{}_{}_in_flight", size.name, kInFlight), "messages_per_s", {}, {}, {}};
      in_flight(rpc, size);
      for (int round = 0; round < rounds_; ++round) figure.ours.push_back(in_flight(rpc, size));
      rows.push_back(json_of(figure));
    }
    return rows;
  }

  Figure round_trip(Rpc& rpc, const Size& size) {
    Figure figure{fmt::format("rpc_{}", size.name), "us", {}, "bare_tcp", {}};
    const Tensor x = at::rand({size.bytes / 4});
    calls(rpc, x, std::max(5, size.round_trips / 10));
    for (int round = 0; round < rounds_; ++round) {
      figure.theirs.push_back(bare(rpc, size));
      figure.ours.push_back(calls(rpc, x, size.round_trips));
    }
    return figure;
  }

  double calls(Rpc& rpc, const Tensor& x, int times) {
    Samples samples;
    for (int i = 0; i < times; ++i) {
      const auto start = SteadyClock::now();
      const Tensor back = rpc.call(kOther, identity_, x);
      samples.push_back(microseconds_since(start));
    }
    return median(samples);
  }

  double bare(Rpc& rpc, const Size& size) {
    const auto done = rpc.async(kOther, echo_, size.bytes, std::int64_t{size.round_trips});
    const double result =
        bare_ping(pair_[0], static_cast<std::size_t>(size.bytes), size.round_trips, buffer_);
    done.wait();
    return result;
  }

  double in_flight(Rpc& rpc, const Size& size) {
    const Tensor x = at::rand({size.bytes / 4});
    std::deque<Future<Tensor>> under_way;
    const auto start = SteadyClock::now();
    for (int i = 0; i < size.round_trips; ++i) {
      if (under_way.size() == kInFlight) {
        under_way.front().wait();
        under_way.pop_front();
      }
      under_way.push_back(rpc.async(kOther, identity_, x));
    }
    for (const auto& future : under_way) future.wait();
    return size.round_trips / microseconds_since(start) * 1e6;
  }

  int rounds_;
  real::Transport transport_;
  std::string only_;  // the size; empty: all of them, and many in flight
  std::array<int, 2> pair_;
  Bytes buffer_;
  Program program_{"bench_rpc"};
  Function<Tensor(Tensor)> identity_;
  Function<void(std::int64_t, std::int64_t)> echo_;
};

}  // namespace
}  // namespace rehearse::bench

int main(int argc, char** argv) {
  CLI::App app{"RPC round trips between two processes"};
  int rounds = 7;
  std::string json, only;
  app.add_option("--rounds", rounds);
  app.add_option("--size", only, "this one alone");
  rehearse::real::Transport transport{};
  rehearse::bench::add_transport(app, transport);
  app.add_option("--json", json);
  CLI11_PARSE(app, argc, argv);
  return rehearse::bench::publish(rehearse::bench::Bench(rounds, only, transport).run(), json);
}
