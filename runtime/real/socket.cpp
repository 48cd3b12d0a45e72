#include "runtime/real/socket.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>

namespace rehearse::real {
namespace {

constexpr int kBacklog = 1024;

sockaddr_in socket_address(const Place& place) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(place.host);
  address.sin_port = htons(place.port);
  return address;
}

const sockaddr* generic(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

void set_no_delay(int socket) {
  const int one = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

Failure cannot_listen(const char* doing) {
  return {Code::cannot_start,
          fmt::format("cannot {} on 127.0.0.1: {}", doing, error_text(errno)),
          {},
          0};
}

}  // namespace

std::string error_text(int number) { return std::system_category().message(number); }

std::string to_string(const Place& place) {
  return fmt::format("{}.{}.{}.{}:{}", place.host >> 24, (place.host >> 16) & 0xff,
                     (place.host >> 8) & 0xff, place.host & 0xff, place.port);
}

Result<Listener> listen_on_loopback() {
  Listener listener;
  listener.socket = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener.socket.valid()) return cannot_listen("open a socket");
  sockaddr_in address = socket_address(listener.place);
  if (::bind(listener.socket.get(), generic(address), sizeof address) != 0) {
    return cannot_listen("bind a port");
  }
  if (::listen(listener.socket.get(), kBacklog) != 0) return cannot_listen("listen");
  socklen_t length = sizeof address;
  ::getsockname(listener.socket.get(), reinterpret_cast<sockaddr*>(&address), &length);
  listener.place.port = ntohs(address.sin_port);
  return listener;
}

Descriptor accept_from(int listener) {
  Descriptor accepted(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (accepted.valid()) set_no_delay(accepted.get());
  return accepted;
}

Result<Descriptor> begin_connect(const Place& place) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return Failure{Code::peer_lost, error_text(errno), {}, 0};
  set_no_delay(socket.get());
  const sockaddr_in address = socket_address(place);
  if (::connect(socket.get(), generic(address), sizeof address) != 0 && errno != EINPROGRESS) {
    return Failure{Code::peer_lost, error_text(errno), {}, 0};
  }
  return socket;
}

int connect_error(int socket) {
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

bool has_closed(int socket) {
  pollfd asked{socket, POLLRDHUP, 0};
  return ::poll(&asked, 1, 0) > 0;
}

int unacknowledged_by_kernel(int socket) {
  int bytes = 0;
  return ::ioctl(socket, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

void set_nonblocking(int descriptor) {
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

}  // namespace rehearse::real
