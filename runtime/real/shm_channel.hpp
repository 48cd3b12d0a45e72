#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/real/channel.hpp"
#include "runtime/real/descriptor.hpp"
#include "runtime/real/ring.hpp"
#include "runtime/real/shared_pool.hpp"
#include "runtime/real/socket.hpp"

namespace rehearse::real {

class ShmChannel;

/// What one process has for all its channels through shared memory: the memory that it lends, and
/// the doorbell that peers ring when it sleeps. While it is awake nobody has to: it looks.
class ShmHost final : Watcher {
 public:
  /// Fails with `cannot_start`.
  static Result<std::unique_ptr<ShmHost>> make(Poller& poller);
  ~ShmHost() override;
  ShmHost(const ShmHost&) = delete;
  ShmHost& operator=(const ShmHost&) = delete;

  SharedPool& pool() { return *pool_; }
  int bell() const { return bell_.get(); }

  /// Tells the watchers of channels that have something for them. True if there was any.
  bool look();
  /// Before this process blocks: from now on peers ring. False if something has come meanwhile.
  bool sleep();
  void wake();

  void add(ShmChannel& channel) { channels_.push_back(&channel); }
  void remove(const ShmChannel& channel);

 private:
  ShmHost(Poller& poller, std::shared_ptr<SharedPool> pool, Descriptor bell);
  void ready(std::uint32_t) override { look(); }

  Poller& poller_;
  std::shared_ptr<SharedPool> pool_;
  Descriptor bell_;
  std::vector<ShmChannel*> channels_;  // null: left while `look` went through them
  bool looking_ = false;
};

/// A stream through two rings in shared memory, with large payloads lent beside it.
///
/// A local socket stands beside the rings: descriptors pass through it, and its end tells that the
/// other process is gone, or has ended this channel. What it had put into its ring by then is still
/// read. Who dials makes the rings and may write at once; both pass their doorbell and their pool.
class ShmChannel final : public Channel, public Lending, Watcher {
 public:
  /// Fails with `peer_lost` where nobody listens, `stopped` if it has to be tried again.
  static Result<std::unique_ptr<Channel>> dial(const std::string& name, ShmHost& host);
  /// For a connection that a peer has dialled.
  static std::unique_ptr<Channel> accept(Descriptor socket, ShmHost& host);
  ~ShmChannel() override;

  ssize_t write(std::span<const iovec> pieces) override;
  ssize_t read(std::span<const iovec> pieces) override;
  bool ending() const override { return ended_; }
  bool peer_has_closed() const override { return has_closed(socket_.get()); }
  bool stands() const override { return true; }
  void watch(Poller& poller, Watcher& watcher) override;
  void unwatch(Poller& poller, const Watcher& watcher) override;
  Lending* lending() override { return this; }
  void peer_is(std::uint16_t worker) override { worker_ = worker; }
  Transport transport() const override { return Transport::shm; }

  Buffer lendable(std::size_t size_bytes) override { return host_.pool().take_block(size_bytes); }
  std::optional<Loan> lend(std::span<const std::byte> bytes) override;
  Result<Payload> borrow(const Loan& loan) override;

  /// For the host.
  bool look();
  /// False if there is something to do.
  bool sleep() { return !in_ || in_->sleep(); }
  void wake() {
    if (in_) in_->wake();
  }

 private:
  ShmChannel(Descriptor socket, ShmHost& host) : host_(host), socket_(std::move(socket)) {}
  void ready(std::uint32_t events) override;
  void look_at_socket();
  void use_rings(SharedMemory rings, bool dialled);
  Status take_descriptors(std::vector<Descriptor> descriptors);
  void ring();

  ShmHost& host_;
  Descriptor socket_;
  Watcher* watcher_ = nullptr;
  SharedMemory rings_;
  std::optional<RingWriter> out_;
  std::optional<RingReader> in_;
  Descriptor their_bell_;
  std::shared_ptr<BorrowedPool> theirs_;
  std::uint16_t worker_ = 0;
  bool blocked_ = false;  // the ring was full
  bool ended_ = false;
  bool broken_ = false;  // what the peer passed, or its ring, makes no sense
};

}  // namespace rehearse::real
