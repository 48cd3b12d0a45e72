#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "runtime/real/local_socket.hpp"
#include "runtime/real/shm_channel.hpp"
#include "runtime/world/frame.hpp"
#include "tests/real/local_run.hpp"

namespace rehearse::real {
namespace {

using namespace std::chrono_literals;

struct Named {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  sockaddr* generic() { return reinterpret_cast<sockaddr*>(&address); }
  bool of(int family) const { return address.ss_family == family; }
};

bool listens(int socket) {
  int listening = 0;
  socklen_t length = sizeof listening;
  ::getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length);
  return listening != 0;
}

// One of a pair that was made together, such as the stream to the launcher.
bool is_nameless(int socket) {
  Named own, peer;
  ::getsockname(socket, own.generic(), &own.length);
  ::getpeername(socket, peer.generic(), &peer.length);
  return own.of(AF_UNIX) && std::max(own.length, peer.length) <= sizeof(sa_family_t);
}

// The sockets of this process for which `wanted` holds.
template <class Wanted>
std::vector<int> own_sockets(Wanted wanted) {
  std::vector<int> found;
  for (int descriptor = 3; descriptor < 256; ++descriptor) {
    Named own;
    if (::getsockname(descriptor, own.generic(), &own.length) != 0) continue;
    if (!is_nameless(descriptor) && wanted(descriptor)) found.push_back(descriptor);
  }
  return found;
}

bool is_connection(int socket) { return !listens(socket); }

std::uint16_t own_port() {
  const auto is_port = [](int socket) {
    Named own;
    ::getsockname(socket, own.generic(), &own.length);
    return listens(socket) && own.of(AF_INET);
  };
  sockaddr_in address{};
  socklen_t length = sizeof address;
  ::getsockname(own_sockets(is_port).at(0), reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

// Over each transport.
class Connected : public testing::TestWithParam<Transport> {};
INSTANTIATE_TEST_SUITE_P(OverEachTransport, Connected,
                         testing::Values(Transport::tcp, Transport::shm),
                         [](const auto& each) { return std::string(name(each.param)); });

Message bulk(std::string_view what, std::size_t size_bytes) {
  const auto bytes = std::make_shared<Bytes>(size_bytes, std::byte{1});
  Message message = text(what);
  message.payloads.emplace_back(bytes, *bytes);
  return message;
}

// A stranger's bytes at the port of a worker, and what comes back before it is closed.
Bytes say_to_port(std::uint16_t port, const Bytes& bytes) {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) != 0) return {};
  if (::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return {};
  Bytes answer(512);
  const ssize_t got = ::recv(socket.get(), answer.data(), answer.size(), MSG_WAITALL);
  answer.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return answer;
}

// The name of the local socket at which this worker listens.
std::string own_local_name() {
  for (const int socket : own_sockets(listens)) {
    sockaddr_un address{};
    socklen_t length = sizeof address;
    ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length);
    if (address.sun_family != AF_UNIX) continue;
    return {address.sun_path + 1, length - offsetof(sockaddr_un, sun_path) - 1};
  }
  return "";
}

// A stranger's bytes through rings of its own, and what comes back before the channel ends.
Bytes say_through_memory(const std::string& local_name, const Bytes& bytes) {
  Poller poller;
  const auto host = ShmHost::make(poller).or_throw();
  const auto channel = ShmChannel::dial(local_name, *host).or_throw();
  struct : Watcher {
    void ready(std::uint32_t) override {}
  } nobody;
  channel->watch(poller, nobody);
  const iovec said{const_cast<std::byte*>(bytes.data()), bytes.size()};
  channel->write({&said, 1});
  Bytes answer(512);
  std::size_t got = 0;
  for (;;) {
    poller.poll(1s);
    const iovec room{answer.data() + got, answer.size() - got};
    const ssize_t more = channel->read({&room, 1});
    if (more == 0) break;
    if (more > 0) got += static_cast<std::size_t>(more);
  }
  channel->unwatch(poller, nobody);
  answer.resize(got);
  return answer;
}

// What a frame of refusal says; empty if `bytes` are none.
std::string refusal_in(const Bytes& bytes) {
  if (bytes.size() <= kPreludeBytes) return "";
  return decode_refusal(std::span(bytes).subspan(kPreludeBytes)).message;
}

// Garbage, another version, another job and an older generation at a worker's port: each is refused
// with the reason, and the worker and its peers go on.
TEST(Process, StrangersAtThePortAreRefusedAndPeersGoOn) {
  LocalRun run(2);
  run.options.job = 5;
  run.options.generation = 3;
  const RunOutcome outcome = run.run([](World& world) {
    auto endpoint = world.net.open(world.self.name).or_throw();
    if (world.self.rank == 0) {
      endpoint->send(find(world, "w1"), Lane::control, text(std::to_string(own_port()))).or_throw();
      world.disk.put("heard", bytes_of(hear(*endpoint, late(world)))).or_throw();
      return;
    }
    const auto port = static_cast<std::uint16_t>(std::stoi(hear(*endpoint, late(world))));
    Prelude hello;
    hello.type = FrameType::hello;
    hello.job = 6;
    hello.generation = 3;
    const Bytes body = encode(Hello{world.self.address, find(world, "w0")});
    std::string said;
    world.tasks.offload({}, [&] {
      say_to_port(port, bytes_of(std::string(200, 'x')));
      said = refusal_in(say_to_port(port, encode_frame(hello, body))) + "; ";
      hello.job = 5;
      hello.generation = 2;
      said += refusal_in(say_to_port(port, encode_frame(hello, body)));
    });
    world.disk.put("said", bytes_of(said)).or_throw();
    endpoint->send(find(world, "w0"), Lane::control, text("still here")).or_throw();
  });
  EXPECT_EQ(run.left("w1", "said"),
            "expected a peer of job 0000000000000005, got one of job 0000000000000006; "
            "generation 2 is over; this is generation 3");
  EXPECT_EQ(run.left("w0", "heard"), "still here");
  EXPECT_EQ(outcome.counters.at("connections_refused"), 3);
}

// The local socket of a worker is no back door: who greets there for another job, or passes garbage
// instead of memory, is refused, and peers go on.
TEST(Process, StrangersAtTheLocalSocketAreRefusedAndPeersGoOn) {
  LocalRun run(2, Transport::shm);
  run.options.job = 5;
  const RunOutcome outcome = run.run([](World& world) {
    auto endpoint = world.net.open(world.self.name).or_throw();
    if (world.self.rank == 0) {
      endpoint->send(find(world, "w1"), Lane::control, text(own_local_name())).or_throw();
      world.disk.put("heard", bytes_of(hear(*endpoint, late(world)))).or_throw();
      return;
    }
    const std::string local_name = hear(*endpoint, late(world));
    Prelude hello;
    hello.type = FrameType::hello;
    hello.job = 6;
    const Bytes greeting =
        encode_frame(hello, encode(Hello{world.self.address, find(world, "w0")}));
    std::string said;
    world.tasks.offload({}, [&] {
      const Descriptor garbage = connect_locally(local_name).or_throw();
      send_descriptors(garbage.get(), std::array{0, 0, 0});
      said = refusal_in(say_through_memory(local_name, greeting));
    });
    world.disk.put("said", bytes_of(said)).or_throw();
    endpoint->send(find(world, "w0"), Lane::control, text("still here")).or_throw();
  });
  EXPECT_EQ(run.left("w1", "said"),
            "expected a peer of job 0000000000000005, got one of job 0000000000000006");
  EXPECT_EQ(run.left("w0", "heard"), "still here");
  EXPECT_EQ(outcome.counters.at("connections_refused"), 1);
}

// Without being told, workers of one host talk through shared memory and those of two hosts over
// TCP, as the report says.
TEST(Process, TheTransportIsChosenByTheHost) {
  for (const int workers_per_host : {1, 2}) {
    LocalRun run(2);
    run.options.workers_per_host = workers_per_host;
    const RunOutcome outcome = run.run([](World& world) {
      auto endpoint = world.net.open(world.self.name).or_throw();
      if (world.self.rank == 0) {
        endpoint->send(find(world, "w1"), Lane::control, text("ping")).or_throw();
      } else {
        const Address from = endpoint->receive(late(world)).or_throw().from;
        endpoint->send(from, Lane::control, text("pong")).or_throw();
      }
      hear(*endpoint, late(world));
    });
    const std::string expected = workers_per_host == 1 ? "connections_tcp" : "connections_shm";
    EXPECT_EQ(outcome.counters.at(expected), 2) << workers_per_host;
    EXPECT_EQ(outcome.counters.contains("connections_tcp"), workers_per_host == 1);
  }
}

// The connection is cut three times while messages are under way: each arrives once, in order.
TEST_P(Connected, AConnectionThatBreaksIsMadeAgainAndNothingIsLost) {
  constexpr int kCount = 300;
  LocalRun run(2, GetParam());
  run.run([](World& world) {
    auto endpoint = world.net.open(world.self.name).or_throw();
    if (world.self.rank == 0) {
      const Address other = find(world, "w1");
      for (int i = 0; i < kCount; ++i) {
        endpoint->send(other, Lane::data, bulk(std::to_string(i), i % 10 == 0 ? 3 << 20 : 10))
            .or_throw();
        if (i % 100 == 50) {
          world.clock.sleep_until(world.clock.now() + 2ms);
          for (int socket : own_sockets(is_connection)) {
            ::shutdown(socket, SHUT_RDWR);
          }
        }
      }
      world.disk.put("end", bytes_of(hear(*endpoint, late(world)))).or_throw();
      return;
    }
    Envelope envelope = endpoint->receive(late(world)).or_throw();
    std::string wrong;
    for (int i = 0; i < kCount; ++i) {
      if (i > 0) envelope = endpoint->receive(late(world)).or_throw();
      const auto* received = std::get_if<Received>(&envelope.what);
      const std::string heard(received ? text_of(received->message.header) : "lost");
      if (heard != std::to_string(i)) wrong += fmt::format("{} instead of {} ", heard, i);
      if (!received) break;
    }
    world.disk.put("wrong", bytes_of("wrong: " + wrong)).or_throw();
    endpoint->send(envelope.from, Lane::data, text("all")).or_throw();
  });
  EXPECT_EQ(run.left("w1", "wrong"), "wrong: ");
  EXPECT_EQ(run.left("w0", "end"), "all");
}

// Both begin at one instant, so that both dial: one connection stays, and each message of either
// side arrives once, in order.
TEST_P(Connected, TwoWorkersThatDialEachOtherAtOnceLoseNothing) {
  for (int attempt = 0; attempt < 5; ++attempt) {
    LocalRun run(2, GetParam());
    run.run([](World& world) {
      auto endpoint = world.net.open(world.self.name).or_throw();
      const Address other = find(world, world.self.rank == 0 ? "w1" : "w0");
      while (world.clock.now() < Time(60ms)) {
      }
      std::string heard;
      for (int i = 0; i < 20; ++i) {
        endpoint->send(other, Lane::data, text(std::to_string(i))).or_throw();
      }
      for (int i = 0; i < 20; ++i) heard += hear(*endpoint, late(world)) + " ";
      world.disk.put("heard", bytes_of(heard)).or_throw();
      endpoint->send(other, Lane::data, text("bye")).or_throw();
      hear(*endpoint, late(world));
    });
    std::string expected;
    for (int i = 0; i < 20; ++i) expected += std::to_string(i) + " ";
    EXPECT_EQ(run.left("w0", "heard"), expected);
    EXPECT_EQ(run.left("w1", "heard"), expected);
  }
}

// 256 MiB are under way when a control message is sent: it arrives first.
TEST_P(Connected, ControlOvertakesABulkMessageThatIsUnderWay) {
  LocalRun run(2, GetParam());
  run.run([](World& world) {
    auto endpoint = world.net.open(world.self.name).or_throw();
    if (world.self.rank == 0) {
      const Address other = find(world, "w1");
      endpoint->send(other, Lane::data, bulk("bulk", std::size_t{256} << 20)).or_throw();
      endpoint->send(other, Lane::control, text("urgent")).or_throw();
      hear(*endpoint, late(world));
      return;
    }
    std::string heard = hear(*endpoint, late(world)) + " ";
    heard += hear(*endpoint, late(world));
    world.disk.put("heard", bytes_of(heard)).or_throw();
  });
  EXPECT_EQ(run.left("w1", "heard"), "urgent bulk");
}

// The sender ends at once, while the receiver does not look at its sockets: the message is there
// when it looks, and the end after it.
TEST_P(Connected, WhatAWorkerSentBeforeItEndedArrivesAtABusyPeer) {
  LocalRun run(2, GetParam());
  const RunOutcome outcome = run.run([](World& world) {
    auto endpoint = world.net.open(world.self.name).or_throw();
    if (world.self.rank == 0) {
      endpoint->send(find(world, "w1"), Lane::data, bulk("last words", 1 << 20)).or_throw();
      return;
    }
    const Time until = world.clock.now() + 200ms;
    while (world.clock.now() < until) {
    }
    const std::string heard = hear(*endpoint, late(world)) + " ";
    world.disk.put("heard", bytes_of(heard + hear(*endpoint, late(world)))).or_throw();
  });
  EXPECT_EQ(run.left("w1", "heard"), "last words lost");
  EXPECT_TRUE(outcome.workers[0].finished);
}

}  // namespace
}  // namespace rehearse::real
