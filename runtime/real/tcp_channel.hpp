#pragma once

#include <memory>

#include "runtime/base/result.hpp"
#include "runtime/real/channel.hpp"
#include "runtime/real/descriptor.hpp"
#include "runtime/real/socket.hpp"

namespace rehearse::real {

/// A stream through a TCP connection.
class TcpChannel final : public Channel {
 public:
  explicit TcpChannel(Descriptor socket) : socket_(std::move(socket)) {}

  /// Begins to connect. Fails with `peer_lost` where nobody listens.
  static Result<std::unique_ptr<Channel>> dial(const Place& place);

  ssize_t write(std::span<const iovec> pieces) override;
  ssize_t read(std::span<const iovec> pieces) override;
  bool peer_has_closed() const override { return has_closed(socket_.get()); }
  void watch(Poller& poller, Watcher& watcher) override { poller.add(socket_.get(), watcher); }
  void unwatch(Poller& poller, const Watcher& watcher) override {
    poller.remove(socket_.get(), watcher);
  }
  int connect_error() const override { return real::connect_error(socket_.get()); }
  int unsent() const override { return unacknowledged_by_kernel(socket_.get()); }
  Transport transport() const override { return Transport::tcp; }

 private:
  Descriptor socket_;
};

}  // namespace rehearse::real
