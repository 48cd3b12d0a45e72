#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/fiber/scheduler.hpp"
#include "runtime/real/buffer_pool.hpp"
#include "runtime/real/control.hpp"
#include "runtime/real/greeter.hpp"
#include "runtime/real/peer.hpp"
#include "runtime/real/poller.hpp"
#include "runtime/real/shm_channel.hpp"
#include "runtime/world/net.hpp"
#include "runtime/world/world.hpp"

namespace rehearse::real {

/// Is told what endpoints do, in the task that does it; may not return (a fault kills).
class Traffic {
 public:
  virtual ~Traffic() = default;
  struct Leave {
    std::uint64_t lamport = 0;
    Duration held{};  ///< how long a fault holds it back
  };
  virtual Leave on_send(const Address& to, const Message& message) = 0;
  virtual void on_receive(const Address& from, const Message& message, std::uint64_t lamport) = 0;
  virtual void on_lost(const Address& peer, LossCause cause) = 0;
  /// A name is to be known to the whole job.
  virtual void on_publish(const BookEntry& entry) = 0;
  virtual void on_connected(const Address& peer, Transport transport) = 0;
  /// Somebody connected who is no peer of this job.
  virtual void on_refused(const Failure& why) = 0;
};

struct ProcessNetOptions {
  Address self;  ///< of the endpoint that is opened under `name`
  std::string name;
  int listener = -1;        ///< taken over
  int local_listener = -1;  ///< taken over
  Transport transport = Transport::automatic;
  Place place;  ///< of the listeners
  std::vector<BookEntry> book;
  Limits limits;
};

/// The network of one process: its endpoints, the connections of each, one listener a transport
/// for all. Whether a peer is reached through TCP or shared memory is decided where it is dialled.
class ProcessNet final : public Net, PeerContext, Watcher {
 public:
  ProcessNet(ProcessNetOptions options, fiber::Scheduler& scheduler, fiber::Driver& driver,
             Poller& poller, Traffic& traffic);
  ~ProcessNet() override;

  Result<std::unique_ptr<Endpoint>> open(std::string_view name) override;
  Result<Address> find(std::string_view name, Time deadline) override;
  Status publish(std::string_view name, const Address& address) override;
  Buffer take(std::size_t size_bytes) override;

  /// Another worker has published this.
  void learn(const BookEntry& entry);
  /// The process of `worker` has ended, says its parent. Its messages that have arrived count.
  void process_ended(std::uint16_t worker, LossCause cause, const std::string& detail);

  /// Sends what waits, reads on where a turn's budget had ended, and does what is due.
  void turn();
  /// When `turn` has to be called again if nothing happens.
  Time next_timer() const;
  /// Takes in what has come through shared memory; cheap. True if there was something.
  bool look() { return shm_ && shm_->look(); }
  /// Before and after the process blocks; false if it must not, because something has come.
  bool sleep() { return !shm_ || shm_->sleep(); }
  void wake() {
    if (shm_) shm_->wake();
  }
  /// Closes every endpoint that is still open.
  void close_all();
  /// All closed endpoints have sent what they had.
  bool finished() const;

 private:
  class ProcessEndpoint;
  struct Port;

  // PeerContext
  Time now() const override { return driver_.now(); }
  Poller& poller() override { return poller_; }
  const std::shared_ptr<BufferPool>& pool() override { return pool_; }
  void deliver(Peer& peer, const Prelude& prelude, Message message) override;
  void report_lost(Peer& peer, PeerLost how) override;
  Result<std::unique_ptr<Channel>> dial(const Place& place) override;
  void connected(Peer& peer, Transport transport) override;
  void bury(std::unique_ptr<Link> link) override { graveyard_.push_back(std::move(link)); }
  void read_again(Peer& peer) override;

  void ready(std::uint32_t events) override;
  void accept_all();
  void greet(std::unique_ptr<Channel> channel);
  bool is_near(const Place& place) const;
  void serve_greeters();
  bool serve(Greeter& greeter);
  Status admit_hello(const Greeter& greeter) const;
  void refuse(Greeter& greeter, const Failure& why);
  Port* port_at(std::uint16_t endpoint) const;

  Status send(Port& port, const Address& to, Lane lane, Message message);
  Result<Envelope> receive(Port& port, Time deadline);
  void close(Port& port);
  void put(Port& port, Envelope envelope, std::uint64_t lamport);
  Peer& peer_of(Port& port, const Address& remote, const Place& place);
  Port& port_of(const Peer& peer) { return *ports_[peer.local().endpoint]; }

  ProcessNetOptions options_;
  fiber::Scheduler& scheduler_;
  fiber::Driver& driver_;
  Poller& poller_;
  Traffic& traffic_;
  std::shared_ptr<BufferPool> pool_ = BufferPool::make();
  Descriptor listener_;
  Descriptor local_listener_;
  std::unique_ptr<ShmHost> shm_;  // null: nothing goes through shared memory
  std::map<std::string, BookEntry, std::less<>> book_;
  std::map<std::uint16_t, Place> places_;  // of workers
  std::map<std::uint16_t, LossCause> ended_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<std::unique_ptr<Greeter>> greeters_;
  std::vector<Peer*> unfinished_;
  std::vector<std::unique_ptr<Link>> graveyard_;
  std::vector<TaskId> finders_;
};

}  // namespace rehearse::real
