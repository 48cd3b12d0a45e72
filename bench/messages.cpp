// How many small messages a second pass through a virtual world: every worker sends to a random
// other, so many messages in the air per worker, through Endpoint, with codec, events and digest.
//
//   bench_messages [--worlds memory,sim] [--workers 64,5000] [--messages 2000000] [--in-air 4]
//                  [--repeat 3] [--json FILE]
//
// Processor time of this process, since a loaded machine disturbs it less than wall time.

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/base/codec.hpp"
#include "runtime/base/random.hpp"
#include "runtime/virtual/constant_physics.hpp"
#include "runtime/virtual/huge_heap.hpp"
#include "runtime/virtual/job.hpp"
#ifdef REHEARSE_HAS_SIMGRID
#include "sim/run.hpp"
#endif

namespace rehearse {
namespace {

constexpr std::size_t kMessageBytes = 512;
constexpr std::size_t kHeaderBytes = 24;

struct Row {
  bool sim = false;
  int workers = 0;
  double messages = 0;
  double seconds = 0;
  double resident_mib = 0;
  std::uint64_t digest = 0;
};

Message encoded(std::uint64_t number, const Payload& payload) {
  Message message;
  message.header.reserve(kHeaderBytes);
  Writer writer(message.header);
  writer.put(number);
  writer.put(number ^ 1);
  writer.put(number ^ 2);
  message.payloads.push_back(payload);
  return message;
}

std::uint64_t decoded(const Message& message) {
  Reader reader(message.header);
  const auto number = reader.get<std::uint64_t>();
  const bool good = reader.get<std::uint64_t>() == (number ^ 1) &&
                    reader.get<std::uint64_t>() == (number ^ 2) && !reader.failed();
  if (!good) throw Error(Code::corrupt, "a message is not what was sent");
  return number;
}

// Answers each message by one to a random other, until `end`.
void talk(World& world, const std::vector<Address>& all, int in_air, Time end) {
  auto endpoint = world.net.open(world.self.name).or_throw();
  Random random = Random(world.self.seed).split(world.self.name);
  const auto bytes = std::make_shared<const Bytes>(kMessageBytes - kHeaderBytes);
  const Payload payload(bytes, *bytes);
  const auto send_one = [&](std::uint64_t number) {
    auto to = random.below(all.size() - 1);
    if (to >= static_cast<std::uint64_t>(world.self.rank)) ++to;
    endpoint->send(all[to], Lane::control, encoded(number, payload)).or_throw();
  };
  for (int i = 0; i < in_air; ++i) send_one(0);
  for (;;) {
    const Result<Envelope> envelope = endpoint->receive(end);
    if (!envelope.ok()) return;
    send_one(decoded(std::get<Received>(envelope.value().what).message) + 1);
  }
}

// Of this process: a loaded machine disturbs it less than wall time.
double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Plan {
  bool sim = false;
  int workers = 0;
  std::int64_t messages = 0;
  int in_air = 0;
};

Row run_job(virtual_world::Physics& physics, const Plan& plan) {
  const int workers = plan.workers, in_air = plan.in_air;
  // A hop takes a little longer, so this is about how many messages there will be.
  const Duration hop = physics.latency(0, 1);
  const Time end{hop * (plan.messages / (std::int64_t{workers} * in_air))};
  virtual_world::JobOptions options;
  options.seed = 1;
  options.stack_bytes = 64 << 10;
  virtual_world::Job job(physics, options);
  std::vector<Address> all;
  for (int i = 0; i < workers; ++i) {
    all.push_back(job.add(fmt::format("w{}", i), static_cast<virtual_world::HostId>(i),
                          [&](World& world) { talk(world, all, in_air, end); }));
  }
  const double start = processor_seconds();
  const RunOutcome outcome = job.run();
  const double spent = processor_seconds() - start;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return {plan.sim,
          workers,
          static_cast<double>(outcome.counters.at("messages")),
          spent,
          static_cast<double>(usage.ru_maxrss) / 1024,
          outcome.digest};
}

Row measure(const Plan& plan) {
  virtual_world::use_huge_pages_for_the_heap();
#ifdef REHEARSE_HAS_SIMGRID
  if (plan.sim) {
    Row row;
    sim::ClusterSpec cluster;
    cluster.hosts = plan.workers;
    sim::run_under_simgrid(cluster,
                           [&](virtual_world::Physics& physics) { row = run_job(physics, plan); });
    return row;
  }
#endif
  virtual_world::ConstantPhysics physics;
  return run_job(physics, plan);
}

// In a child of its own: SimGrid runs once in a process, and resident memory is that of one run.
Row measure_apart(const Plan& plan) {
  int ends[2];
  if (::pipe(ends) != 0) throw Error(Code::cannot_start, "no pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    const Row row = measure(plan);
    const bool written = ::write(ends[1], &row, sizeof row) == sizeof row;
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  Row row;
  const bool read = ::read(ends[0], &row, sizeof row) == sizeof row;
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  if (!read) throw Error(Code::cannot_start, "a run ended without a result");
  return row;
}

Row best_of(int repeat, const Plan& plan) {
  Row best = measure_apart(plan);
  for (int i = 1; i < repeat; ++i) {
    const Row row = measure_apart(plan);
    if (row.digest != best.digest) throw Error(Code::corrupt, "two runs have different digests");
    if (row.seconds < best.seconds) best = row;
  }
  return best;
}

nlohmann::json json_of(const Row& row) {
  return {{"name", fmt::format("{}_{}_workers", row.sim ? "sim" : "memory", row.workers)},
          {"messages", row.messages},
          {"messages_per_s", row.messages / row.seconds},
          {"ns_per_message", row.seconds / row.messages * 1e9},
          {"resident_mib", row.resident_mib},
          {"digest", fmt::format("{:016x}", row.digest)}};
}

}  // namespace
}  // namespace rehearse

int main(int argc, char** argv) {
  CLI::App app{"Small messages a second through a virtual world"};
  std::vector<std::string> worlds{"memory"};
#ifdef REHEARSE_HAS_SIMGRID
  worlds.push_back("sim");
#endif
  const auto known = worlds;
  std::vector<int> workers{64, 5000};
  std::int64_t messages = 2'000'000;
  int in_air = 4, repeat = 3;
  std::string json;
  app.add_option("--worlds", worlds)->delimiter(',')->check(CLI::IsMember(known));
  app.add_option("--workers", workers)->delimiter(',');
  app.add_option("--messages", messages);
  app.add_option("--in-air", in_air);
  app.add_option("--repeat", repeat, "the fastest counts");
  app.add_option("--json", json);
  CLI11_PARSE(app, argc, argv);

  nlohmann::json rows = nlohmann::json::array();
  fmt::print("{:>8} {:>8} {:>12} {:>12} {:>10} {:>10}\n", "world", "workers", "messages",
             "messages/s", "ns each", "MiB");
  for (const std::string& world : worlds) {
    for (const int count : workers) {
      const rehearse::Row row =
          rehearse::best_of(repeat, {world == "sim", count, messages, in_air});
      fmt::print("{:>8} {:>8} {:>12.0f} {:>12.0f} {:>10.0f} {:>10.0f}\n", world, count,
                 row.messages, row.messages / row.seconds, row.seconds / row.messages * 1e9,
                 row.resident_mib);
      std::fflush(stdout);
      rows.push_back(json_of(row));
    }
  }
  if (!json.empty()) std::ofstream(json) << nlohmann::json{{"rows", rows}}.dump(2) << "\n";
}
