#include "runtime/real/local_socket.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "runtime/real/socket.hpp"

namespace rehearse::real {
namespace {

constexpr int kBacklog = 1024;
constexpr std::size_t kDescriptorsMax = 8;
constexpr std::size_t kPathAt = offsetof(sockaddr_un, sun_path);

Failure cannot_listen(const char* doing) {
  return {Code::cannot_start,
          fmt::format("cannot {} a local socket: {}", doing, error_text(errno)),
          {},
          0};
}

bool is_of_this_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == ::geteuid();
}

// Space for the descriptors that go along with one byte.
struct Envelope {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptorsMax * sizeof(int))> space{};
  char byte = 0;
  iovec piece{&byte, 1};
  msghdr message{};
  Envelope() {
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = space.data();
    message.msg_controllen = space.size();
  }
};

}  // namespace

Result<LocalListener> listen_locally() {
  LocalListener listener;
  listener.socket = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener.socket.valid()) return cannot_listen("open");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  // Without a path the kernel makes up a name; its first byte is zero.
  if (::bind(listener.socket.get(), generic, sizeof(sa_family_t)) != 0)
    return cannot_listen("name");
  if (::listen(listener.socket.get(), kBacklog) != 0) return cannot_listen("listen at");
  socklen_t length = sizeof address;
  ::getsockname(listener.socket.get(), generic, &length);
  listener.name.assign(address.sun_path + 1, length - kPathAt - 1);
  return listener;
}

Result<Descriptor> connect_locally(const std::string& name) {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t size = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), size);
  const auto length = static_cast<socklen_t>(kPathAt + 1 + size);
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), length) == 0) return socket;
  return Failure{errno == ECONNREFUSED ? Code::peer_lost : Code::stopped, error_text(errno), {}, 0};
}

Descriptor accept_locally(int listener) {
  for (;;) {
    Descriptor accepted(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!accepted.valid() || is_of_this_user(accepted.get())) return accepted;
  }
}

bool send_descriptors(int socket, std::span<const int> descriptors) {
  Envelope envelope;
  const std::size_t size = descriptors.size_bytes();
  envelope.message.msg_controllen = CMSG_SPACE(size);
  cmsghdr* control = CMSG_FIRSTHDR(&envelope.message);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(size);
  std::memcpy(CMSG_DATA(control), descriptors.data(), size);
  return ::sendmsg(socket, &envelope.message, MSG_NOSIGNAL) == 1;
}

Arrived receive_descriptors(int socket, std::vector<Descriptor>& into) {
  Envelope envelope;
  const ssize_t got = ::recvmsg(socket, &envelope.message, MSG_CMSG_CLOEXEC);
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Arrived::nothing : Arrived::end;
  if (got == 0) return Arrived::end;
  for (cmsghdr* control = CMSG_FIRSTHDR(&envelope.message); control;
       control = CMSG_NXTHDR(&envelope.message, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= control->cmsg_len; at += sizeof(int)) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(control) + at, sizeof number);
      into.emplace_back(number);
    }
  }
  return Arrived::descriptors;
}

}  // namespace rehearse::real
