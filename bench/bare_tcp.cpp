#include "bench/bare_tcp.hpp"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "bench/figures.hpp"

namespace rehearse::bench {
namespace {

void read_all(int socket, std::byte* to, std::size_t size) {
  while (size > 0) {
    const ssize_t got = ::recv(socket, to, size, 0);
    if (got <= 0) std::exit(3);
    to += got;
    size -= static_cast<std::size_t>(got);
  }
}

void write_all(int socket, const std::byte* from, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = ::send(socket, from, size, MSG_NOSIGNAL);
    if (sent <= 0) std::exit(3);
    from += sent;
    size -= static_cast<std::size_t>(sent);
  }
}

}  // namespace

std::array<int, 2> bare_pair() {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof where;
  auto* address = reinterpret_cast<sockaddr*>(&where);
  std::array<int, 2> pair{::socket(AF_INET, SOCK_STREAM, 0), -1};
  if (::bind(listener, address, length) != 0 || ::listen(listener, 1) != 0 ||
      ::getsockname(listener, address, &length) != 0 || ::connect(pair[0], address, length) != 0) {
    std::perror("bare pair");
    std::exit(3);
  }
  pair[1] = ::accept(listener, nullptr, nullptr);
  ::close(listener);
  const int one = 1;
  for (const int end : pair) ::setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return pair;
}

double bare_ping(int socket, std::size_t size_bytes, int round_trips, Bytes& buffer) {
  buffer.resize(size_bytes);
  Samples samples;
  for (int i = 0; i < round_trips; ++i) {
    const auto start = SteadyClock::now();
    write_all(socket, buffer.data(), size_bytes);
    read_all(socket, buffer.data(), size_bytes);
    samples.push_back(microseconds_since(start));
  }
  return median(samples);
}

void bare_echo(int socket, std::size_t size_bytes, int round_trips, Bytes& buffer) {
  buffer.resize(size_bytes);
  for (int i = 0; i < round_trips; ++i) {
    read_all(socket, buffer.data(), size_bytes);
    write_all(socket, buffer.data(), size_bytes);
  }
}

}  // namespace rehearse::bench
