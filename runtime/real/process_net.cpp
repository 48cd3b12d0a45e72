#include "runtime/real/process_net.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/real/local_socket.hpp"
#include "runtime/real/tcp_channel.hpp"

namespace rehearse::real {
namespace {

// Strangers that have connected and not yet said who they are; beyond it the oldest is dropped.
constexpr std::size_t kGreetersMax = 256;

Failure gone(const Address& to) {
  std::string worker = fmt::format("w{}", to.worker);
  std::string message = worker + " is lost";
  return {Code::peer_lost, std::move(message), std::move(worker), 0};
}

}  // namespace

// An endpoint's state. It outlives the endpoint until what was sent has left.
struct ProcessNet::Port {
  struct Waiting {
    Envelope envelope;
    std::uint64_t lamport = 0;
  };
  Address address;
  std::string name;
  std::deque<Waiting> inbox;
  TaskId receiver;
  bool closed = false;
  std::map<Address, std::unique_ptr<Peer>> peers;
};

class ProcessNet::ProcessEndpoint final : public Endpoint {
 public:
  ProcessEndpoint(ProcessNet& net, Port& port) : net_(net), port_(port) {}
  ~ProcessEndpoint() override { net_.close(port_); }
  Status send(const Address& to, Lane lane, Message message) override {
    return net_.send(port_, to, lane, std::move(message));
  }
  Result<Envelope> receive(Time deadline) override { return net_.receive(port_, deadline); }
  std::size_t unacknowledged_bytes(const Address& to) const override {
    const auto found = port_.peers.find(to);
    return found == port_.peers.end() ? 0 : found->second->unacknowledged_bytes();
  }
  const Address& address() const override { return port_.address; }

 private:
  ProcessNet& net_;
  Port& port_;
};

ProcessNet::ProcessNet(ProcessNetOptions options, fiber::Scheduler& scheduler,
                       fiber::Driver& driver, Poller& poller, Traffic& traffic)
    : options_(std::move(options)),
      scheduler_(scheduler),
      driver_(driver),
      poller_(poller),
      traffic_(traffic),
      listener_(options_.listener),
      local_listener_(options_.local_listener) {
  for (const BookEntry& entry : options_.book) {
    book_[entry.name] = entry;
    places_[entry.address.worker] = entry.place;
  }
  poller_.add(listener_.get(), *this);
  const bool any_near =
      std::any_of(options_.book.begin(), options_.book.end(), [this](const BookEntry& entry) {
        return entry.address != options_.self && is_near(entry.place);
      });
  if (!any_near || !local_listener_.valid()) return;
  shm_ = ShmHost::make(poller_).or_throw();
  poller_.add(local_listener_.get(), *this);
}

// Reached through shared memory.
bool ProcessNet::is_near(const Place& place) const {
  if (place.local.empty() || options_.transport == Transport::tcp) return false;
  return options_.transport == Transport::shm || place.node == options_.place.node;
}

Buffer ProcessNet::take(std::size_t size_bytes) {
  return shm_ ? shm_->pool().take(size_bytes) : pool_->take(size_bytes);
}

Result<std::unique_ptr<Channel>> ProcessNet::dial(const Place& place) {
  if (shm_ && is_near(place)) return ShmChannel::dial(place.local, *shm_);
  return TcpChannel::dial(place);
}

void ProcessNet::connected(Peer& peer, Transport transport) {
  traffic_.on_connected(peer.remote(), transport);
}

ProcessNet::~ProcessNet() {
  greeters_.clear();
  ports_.clear();
}

Result<std::unique_ptr<Endpoint>> ProcessNet::open(std::string_view name) {
  const bool own = name == options_.name;
  const auto taken = std::find_if(ports_.begin(), ports_.end(), [name](const auto& port) {
    return port && port->name == name && !port->closed;
  });
  if (taken != ports_.end() || (!own && book_.find(name) != book_.end())) {
    return Failure{Code::bad_argument, fmt::format("the name '{}' is taken", name), {}, 0};
  }
  if (ports_.empty()) ports_.emplace_back();  // kept for the endpoint of the worker's own name
  const bool first = own && (!ports_[0] || ports_[0]->closed);
  if (!first) ports_.emplace_back();
  auto& slot = first ? ports_[0] : ports_.back();
  if (first && slot) return Failure{Code::bad_argument, "the own endpoint was closed", {}, 0};
  slot = std::make_unique<Port>();
  slot->name = name;
  slot->address = options_.self;
  slot->address.endpoint =
      first ? options_.self.endpoint : static_cast<std::uint16_t>(ports_.size() - 1);
  if (!own) {
    const BookEntry entry{slot->name, slot->address, options_.place};
    traffic_.on_publish(entry);
    learn(entry);
  }
  serve_greeters();
  return std::unique_ptr<Endpoint>(std::make_unique<ProcessEndpoint>(*this, *slot));
}

Result<Address> ProcessNet::find(std::string_view name, Time deadline) {
  for (;;) {
    scheduler_.begin_wait({"a name", std::string(name)});
    if (const auto found = book_.find(name); found != book_.end()) return found->second.address;
    if (now() >= deadline) {
      return Failure{Code::timed_out, fmt::format("nobody has published '{}'", name), {}, 0};
    }
    finders_.push_back(scheduler_.current());
    scheduler_.park(deadline, {"a name", std::string(name)});
  }
}

Status ProcessNet::publish(std::string_view name, const Address& address) {
  const auto place = places_.find(address.worker);
  if (place == places_.end()) {
    return Failure{Code::unknown_worker, fmt::format("no worker {}", address.worker), {}, 0};
  }
  const BookEntry entry{std::string(name), address, place->second};
  traffic_.on_publish(entry);
  learn(entry);
  return {};
}

void ProcessNet::learn(const BookEntry& entry) {
  book_[entry.name] = entry;
  places_.emplace(entry.address.worker, entry.place);
  for (const TaskId finder : std::exchange(finders_, {})) scheduler_.unpark(finder);
}

Peer& ProcessNet::peer_of(Port& port, const Address& remote, const Place& place) {
  auto& peer = port.peers[remote];
  if (!peer) {
    peer = std::make_unique<Peer>(static_cast<PeerContext&>(*this), port.address, remote, place,
                                  DeliveryLimits{.reconnect = options_.limits.reconnect});
  }
  return *peer;
}

Status ProcessNet::send(Port& port, const Address& to, Lane lane, Message message) {
  if (port.closed) return Failure{Code::stopped, "the endpoint is closed", {}, 0};
  if (to.job != options_.self.job) {
    return Failure{Code::bad_argument, "the address is of another job", {}, 0};
  }
  if (to.generation < options_.self.generation) {
    return Failure{
        Code::stale_generation, fmt::format("generation {} is over", to.generation), {}, 0};
  }
  if (Status status = check_bounds(message); !status.ok()) return status;
  const auto place = places_.find(to.worker);
  if (place == places_.end()) {
    return Failure{Code::unknown_worker, fmt::format("no worker {}", to.worker), {}, 0};
  }
  if (to == port.address) {
    const Traffic::Leave leave = traffic_.on_send(to, message);
    put(port, {to, Received{lane, std::move(message)}}, leave.lamport);
    return {};
  }
  Peer& peer = peer_of(port, to, place->second);
  if (peer.lost()) return gone(to);
  const Traffic::Leave leave = traffic_.on_send(to, message);
  const Time not_before = leave.held > Duration::zero() ? after(now(), leave.held) : Time::min();
  if (const auto ended = ended_.find(to.worker); ended != ended_.end()) {
    peer.process_ended(ended->second, "its process had ended before");
  } else {
    // Who has more to read will have more to say in this turn.
    peer.send(lane, std::move(message), leave.lamport, not_before, !port.inbox.empty());
  }
  return {};
}

Result<Envelope> ProcessNet::receive(Port& port, Time deadline) {
  scheduler_.begin_wait({"a message", {}});
  while (port.inbox.empty()) {
    if (port.closed) return Failure{Code::stopped, "the endpoint is closed", {}, 0};
    port.receiver = scheduler_.current();
    const Wake wake = scheduler_.park(deadline, {"a message", {}});
    if (wake == Wake::timed_out && port.inbox.empty()) {
      return Failure{Code::timed_out, "no message came before the deadline", {}, 0};
    }
  }
  Port::Waiting next = std::move(port.inbox.front());
  port.inbox.pop_front();
  if (const auto* received = std::get_if<Received>(&next.envelope.what)) {
    traffic_.on_receive(next.envelope.from, received->message, next.lamport);
  } else if (const auto* lost = std::get_if<PeerLost>(&next.envelope.what)) {
    traffic_.on_lost(next.envelope.from, lost->cause);
  }
  return std::move(next.envelope);
}

void ProcessNet::put(Port& port, Envelope envelope, std::uint64_t lamport) {
  if (port.closed) return;
  port.inbox.push_back({std::move(envelope), lamport});
  scheduler_.unpark(std::exchange(port.receiver, TaskId{}));
}

void ProcessNet::deliver(Peer& peer, const Prelude& prelude, Message message) {
  put(port_of(peer), {peer.remote(), Received{prelude.lane, std::move(message)}}, prelude.lamport);
}

void ProcessNet::report_lost(Peer& peer, PeerLost how) {
  put(port_of(peer), {peer.remote(), std::move(how)}, 0);
}

void ProcessNet::read_again(Peer& peer) { unfinished_.push_back(&peer); }

void ProcessNet::close(Port& port) {
  if (port.closed) return;
  port.closed = true;
  port.inbox.clear();
  for (auto& [remote, peer] : port.peers) peer->say_farewell();
  scheduler_.unpark(std::exchange(port.receiver, TaskId{}));
}

void ProcessNet::close_all() {
  for (auto& port : ports_) {
    if (port) close(*port);
  }
}

bool ProcessNet::finished() const {
  for (const auto& port : ports_) {
    if (!port) continue;
    for (const auto& [remote, peer] : port->peers) {
      if (!peer->finished()) return false;
    }
  }
  return true;
}

void ProcessNet::ready(std::uint32_t) { accept_all(); }

void ProcessNet::accept_all() {
  for (;;) {
    Descriptor accepted = accept_from(listener_.get());
    if (!accepted.valid()) break;
    greet(std::make_unique<TcpChannel>(std::move(accepted)));
  }
  while (shm_) {
    Descriptor accepted = accept_locally(local_listener_.get());
    if (!accepted.valid()) break;
    greet(ShmChannel::accept(std::move(accepted), *shm_));
  }
  serve_greeters();
}

void ProcessNet::greet(std::unique_ptr<Channel> channel) {
  if (greeters_.size() >= kGreetersMax) greeters_.erase(greeters_.begin());
  auto link = std::make_unique<Link>(std::move(channel), pool_, options_.self);
  greeters_.push_back(std::make_unique<Greeter>(std::move(link), poller_));
}

void ProcessNet::serve_greeters() {
  for (std::size_t i = 0; i < greeters_.size();) {
    greeters_[i]->ready(0);
    if (serve(*greeters_[i])) {
      greeters_.erase(greeters_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

ProcessNet::Port* ProcessNet::port_at(std::uint16_t endpoint) const {
  return endpoint < ports_.size() ? ports_[endpoint].get() : nullptr;
}

Status ProcessNet::admit_hello(const Greeter& greeter) const {
  const Address& self = options_.self;
  if (Status status = admit(greeter.prelude(), self.job, self.generation); !status.ok()) {
    return status;
  }
  const Address& to = greeter.hello().to;
  if (to.worker != self.worker || to.incarnation != self.incarnation) {
    return Failure{Code::bad_argument, "the process that was meant is not here", {}, 0};
  }
  const Port* port = port_at(to.endpoint);
  // A closed endpoint still serves those to whom it has something to send.
  if (port && port->closed && !port->peers.contains(greeter.hello().from)) {
    return Failure{Code::peer_lost, "its endpoint has closed", {}, 0};
  }
  if (!places_.contains(greeter.hello().from.worker)) {
    return Failure{Code::unknown_worker, "who calls is in no book", {}, 0};
  }
  return {};
}

// True if nothing is left to do with it.
bool ProcessNet::serve(Greeter& greeter) {
  if (greeter.state() == Greeter::State::waiting) return false;
  if (greeter.state() == Greeter::State::failed) {
    if (greeter.failure().code == Code::corrupt) traffic_.on_refused(greeter.failure());
    return true;
  }
  const Status status = admit_hello(greeter);
  if (!status.ok()) {
    refuse(greeter, status.failure());
    return true;
  }
  const Hello hello = greeter.hello();
  Port* port = port_at(hello.to.endpoint);
  if (!port) return false;  // not opened yet
  Peer& peer = peer_of(*port, hello.from, places_.find(hello.from.worker)->second);
  if (peer.lost()) {
    refuse(greeter, {Code::peer_lost, "it was given up", {}, 0});
    return true;
  }
  const Prelude prelude = greeter.prelude();
  peer.adopt(greeter.release(), prelude);
  return true;
}

void ProcessNet::refuse(Greeter& greeter, const Failure& why) {
  if (why.code != Code::peer_lost) traffic_.on_refused(why);
  const auto link = greeter.release();
  link->out.push(FrameType::refusal, Acks{}, encode_refusal(why));
  link->out.write(*link->channel, nullptr, now());
}

void ProcessNet::process_ended(std::uint16_t worker, LossCause cause, const std::string& detail) {
  accept_all();  // what it had sent may still wait there
  ended_.emplace(worker, cause);
  if (shm_) shm_->pool().reclaim(worker);
  for (auto& port : ports_) {
    if (!port) continue;
    for (auto& [remote, peer] : port->peers) {
      if (remote.worker == worker) peer->process_ended(cause, detail);
    }
  }
}

void ProcessNet::turn() {
  graveyard_.clear();
  if (!greeters_.empty()) serve_greeters();
  for (Peer* peer : std::exchange(unfinished_, {})) peer->read_on();
  const Time time = now();
  for (auto& port : ports_) {
    if (!port) continue;
    for (auto& [remote, peer] : port->peers) peer->on_timer(time);
  }
}

Time ProcessNet::next_timer() const {
  if (!unfinished_.empty()) return Time::min();
  Time next = kNever;
  for (const auto& port : ports_) {
    if (!port) continue;
    for (const auto& [remote, peer] : port->peers) next = std::min(next, peer->next_timer());
  }
  return next;
}

}  // namespace rehearse::real
