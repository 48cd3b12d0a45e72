#include "runtime/real/tcp_channel.hpp"

#include <sys/socket.h>

namespace rehearse::real {
namespace {

msghdr message_of(std::span<const iovec> pieces) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  return message;
}

}  // namespace

Result<std::unique_ptr<Channel>> TcpChannel::dial(const Place& place) {
  auto socket = begin_connect(place);
  if (!socket.ok()) return socket.failure();
  return std::unique_ptr<Channel>(std::make_unique<TcpChannel>(std::move(socket).or_throw()));
}

ssize_t TcpChannel::write(std::span<const iovec> pieces) {
  const msghdr message = message_of(pieces);
  return ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
}

ssize_t TcpChannel::read(std::span<const iovec> pieces) {
  msghdr message = message_of(pieces);
  return ::recvmsg(socket_.get(), &message, 0);
}

}  // namespace rehearse::real
