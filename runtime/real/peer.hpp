#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "runtime/base/ids.hpp"
#include "runtime/real/channel.hpp"
#include "runtime/real/inbound.hpp"
#include "runtime/real/outbound.hpp"
#include "runtime/real/poller.hpp"
#include "runtime/real/socket.hpp"
#include "runtime/world/delivery.hpp"

namespace rehearse::real {

/// One connection; both lanes share it.
struct Link {
  Link(std::unique_ptr<Channel> connected, std::shared_ptr<BufferPool> pool, const Address& local)
      : channel(std::move(connected)), in(std::move(pool)), out(local.job, local.generation) {}

  std::unique_ptr<Channel> channel;
  Inbound in;
  Outbound out;
  bool open = false;      ///< messages may be sent
  bool welcomed = false;  ///< the peer keeps this connection
  bool standing = false;  ///< has connected: the peer's process lives
  bool blocked = false;   ///< the channel takes no more now
};

class Peer;

/// What a peer needs of the process around it.
class PeerContext {
 public:
  virtual ~PeerContext() = default;
  virtual Time now() const = 0;
  virtual Poller& poller() = 0;
  virtual const std::shared_ptr<BufferPool>& pool() = 0;
  /// Begins to connect. Fails with `peer_lost` where nobody listens, `stopped` if it has to be
  /// tried again.
  virtual Result<std::unique_ptr<Channel>> dial(const Place& place) = 0;
  virtual void connected(Peer& peer, Transport transport) = 0;
  virtual void deliver(Peer& peer, const Prelude& prelude, Message message) = 0;
  virtual void report_lost(Peer& peer, PeerLost how) = 0;
  /// Keeps a connection that is over until nobody can be inside it any more.
  virtual void bury(std::unique_ptr<Link> link) = 0;
  /// `Peer::read_on` is to be called in the next turn.
  virtual void read_again(Peer& peer) = 0;
};

/// One remote endpoint as one local endpoint sees it: its delivery, its connection, how it ends.
///
/// Either side dials when it has something to say and there is no connection; if both do, the
/// connection that the lower address dialled stays. A peer that refuses connections has no process
/// any more, because every listener is open before the first worker runs.
/// The first connection carries messages right behind the greeting, so that what was sent arrives
/// even if the sender dies before it is answered.
class Peer final : public Watcher, public FrameSink {
 public:
  Peer(PeerContext& context, const Address& local, const Address& remote, const Place& place,
       const DeliveryLimits& limits);
  ~Peer() override;

  const Address& local() const { return local_; }
  const Address& remote() const { return remote_; }

  /// REQUIRES: not lost. `not_before` holds it back, and what follows on its lane. It leaves at
  /// once, or, if `more_follows`, with what follows in this turn.
  void send(Lane lane, Message message, std::uint64_t lamport, Time not_before, bool more_follows);
  /// Takes a connection that `remote` has dialled; `hello` was read from it.
  void adopt(std::unique_ptr<Link> link, const Prelude& hello);
  /// Its process has ended: what it had sent is read, then it is lost.
  void process_ended(LossCause cause, const std::string& detail);
  /// The local endpoint ends: what was sent goes out, then the farewell.
  void say_farewell();
  /// Nothing is left to be sent, or can be.
  bool finished() const;

  void flush();
  void read_on();
  Time next_timer() const;
  void on_timer(Time now);

  bool lost() const { return delivery_.lost(); }
  std::size_t unacknowledged_bytes() const {
    return delivery_.unacknowledged_bytes() + held_bytes_;
  }

  void ready(std::uint32_t events) override;
  Status on_prelude(const Prelude& prelude) override;
  Status on_message(const Prelude& prelude, Message message) override;
  Status on_frame(const Prelude& prelude, std::span<const std::byte> body) override;

 private:
  struct Held {
    Time until{};
    std::uint64_t lamport = 0;
    Message message;
  };

  void dial();
  void use(std::unique_ptr<Link> link);
  void drop_link();
  void link_failed(const std::string& why);
  void release_held(Time now);
  void lose(LossCause cause, std::string detail);
  Status greet(const Prelude& prelude);

  PeerContext& context_;
  Address local_;
  Address remote_;
  Place place_;
  Delivery delivery_;
  std::unique_ptr<Link> link_;
  std::array<std::deque<Held>, kLanes> held_;
  std::size_t held_bytes_ = 0;
  Time redial_at_ = kNever;
  bool met_ = false;  // there has been a connection, or an attempt
  bool farewell_wanted_ = false;
  int refusals_in_a_row_ = 0;
  Time flushed_at_{};
  int burst_ = 0;  // messages in this turn
  bool flush_wanted_ = false;
};

}  // namespace rehearse::real
