// Round trips through Endpoint between two processes of one host, each beside a bare blocking TCP
// ping-pong of the same bytes in the same two processes, in turn. Prints medians and the ratio of
// medians over the rounds with its spread; then how long after SIGKILL a peer hears of the loss.
//
//   bench_endpoint [--rounds 7] [--transport tcp|shm]

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <utility>

#include "bench/bare_tcp.hpp"
#include "bench/figures.hpp"
#include "bench/local_job.hpp"
#include "runtime/real/launcher.hpp"

namespace rehearse {
namespace {

struct Size {
  std::size_t bytes;
  int round_trips;
};
constexpr std::array kSizes{Size{1 << 10, 2000}, Size{64 << 10, 600}, Size{1 << 20, 80},
                            Size{16 << 20, 10}};
constexpr int kInFlight = 64;
constexpr int kPipelined = 40'000;
constexpr std::size_t kHeaderBytes = 64;

using bench::bare_echo;
using bench::bare_pair;
using bench::bare_ping;
using bench::median;
using bench::microseconds_since;
using bench::Samples;
using bench::SteadyClock;

// The same bytes as a message's: header and payload.
double bare(int socket, bool asks, const Size& size, Bytes& buffer) {
  if (asks) return bare_ping(socket, kHeaderBytes + size.bytes, size.round_trips, buffer);
  bare_echo(socket, kHeaderBytes + size.bytes, size.round_trips, buffer);
  return 0;
}

Message message_of(const Payload& payload) {
  return {MessageKind::user, Bytes(kHeaderBytes), {payload}};
}

Message next(Endpoint& endpoint) {
  Envelope envelope = endpoint.receive(kNever).or_throw();
  return std::get<Received>(std::move(envelope.what)).message;
}

double endpoint_round(Endpoint& endpoint, const Address& other, bool asks, const Size& size,
                      const Payload& payload) {
  Samples samples;
  for (int i = 0; i < size.round_trips; ++i) {
    const auto start = SteadyClock::now();
    if (asks) endpoint.send(other, Lane::data, message_of(payload)).or_throw();
    Message message = next(endpoint);
    if (!asks) endpoint.send(other, Lane::data, message_of(message.payloads.at(0))).or_throw();
    samples.push_back(microseconds_since(start));
  }
  // The bare part blocks the whole process: first the last answer must have left it.
  if (asks) endpoint.send(other, Lane::data, {}).or_throw();
  if (!asks) next(endpoint);
  return median(samples);
}

// Messages a second with kInFlight under way.
double pipelined(Endpoint& endpoint, const Address& other, bool asks, const Payload& payload) {
  const auto start = SteadyClock::now();
  if (asks) {
    for (int i = 0; i < kInFlight; ++i) {
      endpoint.send(other, Lane::data, message_of(payload)).or_throw();
    }
  }
  for (int i = 0; i < kPipelined; ++i) {
    Message message = next(endpoint);
    if (!asks || i + kInFlight < kPipelined) {
      endpoint.send(other, Lane::data, message_of(message.payloads.at(0))).or_throw();
    }
  }
  return kPipelined / microseconds_since(start) * 1e6;
}

void print(const char* name, const Samples& ours, const Samples& theirs) {
  Samples ratios;
  for (std::size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / theirs[i]);
  fmt::print("{:>8}  endpoint {:9.1f} us  bare {:9.1f} us  ratio {:.2f} ({:.2f}..{:.2f})\n", name,
             median(ours), median(theirs), median(ratios), bench::quantile(ratios, 0),
             bench::quantile(ratios, 1));
}

void measure(World& world, const std::array<int, 2>& pair, int rounds) {
  const bool asks = world.self.rank == 0;
  const int socket = pair[static_cast<std::size_t>(world.self.rank)];
  auto endpoint = world.net.open(world.self.name).or_throw();
  const Address other = world.net.find(asks ? "w1" : "w0", kNever).or_throw();
  Bytes buffer;
  for (const Size& size : kSizes) {
    const auto bytes = std::make_shared<Bytes>(size.bytes, std::byte{1});
    const Payload payload(bytes, *bytes);
    Samples ours, theirs;
    const Size few{size.bytes, std::max(3, size.round_trips / 10)};
    bare(socket, asks, few, buffer);
    endpoint_round(*endpoint, other, asks, few, payload);
    for (int round = 0; round < rounds; ++round) {
      theirs.push_back(bare(socket, asks, size, buffer));
      ours.push_back(endpoint_round(*endpoint, other, asks, size, payload));
    }
    if (asks) print(fmt::format("{} KiB", size.bytes >> 10).c_str(), ours, theirs);
  }
  const auto bytes = std::make_shared<Bytes>(1024, std::byte{1});
  Samples rates;
  for (int round = 0; round < rounds; ++round) {
    rates.push_back(pipelined(*endpoint, other, asks, Payload(bytes, *bytes)));
  }
  if (asks) {
    fmt::print("{} in flight, 1 KiB: {:.0f} messages/s ({:.0f}..{:.0f})\n", kInFlight,
               median(rates), bench::quantile(rates, 0), bench::quantile(rates, 1));
  }
}

// From the return of kill(2) to the receiver's PeerLost.
void measure_loss(World& world) {
  auto endpoint = world.net.open(world.self.name).or_throw();
  if (world.self.rank == 0) {
    endpoint->send(world.net.find("w1", kNever).or_throw(), Lane::data, {}).or_throw();
    const Message answer = next(*endpoint);
    const int pid = std::stoi(std::string(text_of(answer.header)));
    ::kill(pid, SIGKILL);
    const auto start = SteadyClock::now();
    endpoint->receive(kNever).or_throw();
    fmt::print("{:.0f}\n", microseconds_since(start));
    return;
  }
  const Address other = endpoint->receive(kNever).or_throw().from;
  Message answer{MessageKind::user, bytes_of(std::to_string(::getpid())), {}};
  endpoint->send(other, Lane::data, std::move(answer)).or_throw();
  endpoint->receive(kNever).or_throw();
}

int run(int rounds, real::Transport transport) {
  const auto pair = bare_pair();
  fmt::print("{}", bench::run_local(2, [&](World& world) { measure(world, pair, rounds); },
                                    {.transport = transport}));
  Samples losses;
  for (int round = 0; round < 3 * rounds; ++round) {
    losses.push_back(std::atof(
        bench::run_local(2, measure_loss, {.transport = transport, .losses = true}).c_str()));
  }
  fmt::print("peer lost after SIGKILL: {:.0f} us (at most {:.0f})\n", median(losses),
             bench::quantile(losses, 1));
  return 0;
}

}  // namespace
}  // namespace rehearse

int main(int argc, char** argv) {
  CLI::App app{"Round trips through Endpoint between two processes"};
  int rounds = 7;
  rehearse::real::Transport transport{};
  app.add_option("--rounds", rounds);
  rehearse::bench::add_transport(app, transport);
  CLI11_PARSE(app, argc, argv);
  return rehearse::run(rounds, transport);
}
