#include "runtime/virtual/worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/check.hpp"

namespace rehearse::virtual_world {
namespace {

// How often a task may swallow its cancellation before its worker ends without it.
constexpr int kDrainTriesMax = 16;

Failure stopped(std::string why) { return {Code::stopped, std::move(why), {}, 0}; }

}  // namespace

// An endpoint in a worker's hands; its station is the network's and outlives it.
class Worker::VirtualEndpoint final : public Endpoint {
 public:
  VirtualEndpoint(Worker& owner, StationId station)
      : owner_(owner), station_(station), address_(owner.job_.network_.address(station)) {}
  ~VirtualEndpoint() override {
    if (!owner_.alive_) return;
    Worker& owner = owner_;
    const auto close = [&owner, station = station_] {
      owner.job_.network_.close(station, LossCause::ended,
                                owner.spec_.name + " closed its endpoint", SeenAs::reset);
    };
    *closed_ = true;
    if (owner.local_time_ > owner.job_.now()) {
      owner.job_.agenda_.call(owner.local_time_, close);
    } else {
      close();
    }
  }
  Status send(const Address& to, Lane lane, Message message) override {
    return owner_.send(station_, to, lane, std::move(message));
  }
  Result<Envelope> receive(Time deadline) override {
    // The receiver may outlive the endpoint that it waits at.
    const std::shared_ptr<bool> closed = closed_;
    return owner_.receive(station_, *closed, deadline);
  }
  std::size_t unacknowledged_bytes(const Address& to) const override {
    const auto peer = owner_.job_.network_.find(to);
    return peer ? owner_.job_.network_.unacknowledged_bytes(station_, *peer) : 0;
  }
  const Address& address() const override { return address_; }

 private:
  Worker& owner_;
  StationId station_;
  Address address_;
  std::shared_ptr<bool> closed_ = std::make_shared<bool>(false);
};

class Worker::Meter final : public SwitchHook {
 public:
  explicit Meter(Worker& worker) : worker_(worker) {}
  void spawned(TaskId, TaskId) override {}
  void resumed(TaskId) override {}
  void suspended(TaskId) override { worker_.charge_measured(); }
  void finished(TaskId) override {}

 private:
  Worker& worker_;
};

Worker::Worker(Job& job, WorkerSpec spec, HostId host, Job::Body body)
    : job_(job),
      spec_(std::move(spec)),
      host_(host),
      body_(std::move(body)),
      group_(job.scheduler_.new_group()),
      world_{*this, *this, *this, *this, *this, *this, *this, *this, job.options_.limits, spec_},
      recorder_(job.record_, spec_.address.worker, spec_.address.generation),
      random_(Random(spec_.seed).split(spec_.name)) {
  stations_.push_back(job_.network_.add(spec_.address, spec_.name, host_));
  outcome_.name = spec_.name;
  outcome_.rank = spec_.rank;
  if (!job_.options_.measured) return;
  meter_ = std::make_unique<Meter>(*this);
  job_.scheduler_.add_hook(group_, *meter_);
}

// Only the running task computes, and every switch asks: what there is to charge is this worker's.
Time Worker::now() const {
  if (meter_) const_cast<Worker*>(this)->charge_measured();
  return std::max(job_.agenda_.now(), local_time_);
}

void Worker::charge_measured() {
  const Cost cost = job_.options_.measured();
  if (alive_ && (cost.flops > 0 || cost.bytes > 0)) charge(cost);
}

void Worker::start(int world_size) {
  spec_.world_size = world_size;
  job_.scheduler_.spawn(group_, "main", Duty::foreground, [this] { run_main(); });
}

void Worker::run_main() {
  try {
    body_(world_);
  } catch (const Cancelled&) {
    if (!alive_) throw;
  }
  finish();
}

void Worker::finish() {
  settle();
  job_.scheduler_.drain(kDrainTriesMax);
  if (!alive_) return;
  settle();
  outcome_.finished = true;
  end_with({EventKind::ended, 0, 0, 0});
  close_stations(LossCause::ended, spec_.name + " has ended", SeenAs::reset);
}

void Worker::kill(SeenAs seen_as, bool at_own_time) {
  if (!alive_) return;
  outcome_.killed = true;
  end_with({EventKind::killed, 0, 0, 0});
  if (at_own_time) {
    close_later(LossCause::killed, spec_.name + " was killed", seen_as);
  } else {
    close_stations(LossCause::killed, spec_.name + " was killed", seen_as);
  }
  job_.scheduler_.close(group_);
}

void Worker::fail(Failure failure) {
  if (!alive_) return;
  end_with({EventKind::task_failed, 0, 0, 0});
  close_later(LossCause::exited, spec_.name + " failed: " + failure.message, SeenAs::reset);
  outcome_.exit_code = 1;
  outcome_.failure = std::move(failure);
  job_.scheduler_.close(group_);
}

void Worker::end_with(const Event& event) {
  record(event);
  outcome_.ended = now();
  go_inert();
  job_.faults_->set_gone(spec_.rank);
}

WorkerOutcome Worker::outcome() const {
  WorkerOutcome outcome = outcome_;
  outcome.digest = recorder_.digest();
  return outcome;
}

void Worker::close_stations(LossCause cause, const std::string& detail, SeenAs seen_as) {
  for (StationId station : stations_) job_.network_.close(station, cause, detail, seen_as);
}

void Worker::close_later(LossCause cause, std::string detail, SeenAs seen_as) {
  if (local_time_ <= job_.now()) return close_stations(cause, detail, seen_as);
  job_.agenda_.call(local_time_, [this, cause, detail = std::move(detail), seen_as] {
    close_stations(cause, detail, seen_as);
  });
}

// Waits until the world has reached this worker's local time.
void Worker::settle() {
  while (alive_ && local_time_ > job_.now()) job_.scheduler_.yield();
}

Status Worker::send(StationId from, const Address& to, Lane lane, Message message) {
  if (!alive_) return {};
  job_.network_.fetch_for(from, to);
  if (to.generation < spec_.address.generation) {
    return Failure{
        Code::stale_generation, fmt::format("generation {} is over", to.generation), {}, 0};
  }
  const auto peer = job_.network_.find(to);
  if (!peer) {
    return Failure{Code::unknown_worker,
                   fmt::format("no endpoint {} of worker {} in this job", to.endpoint, to.worker),
                   {},
                   0};
  }
  if (job_.network_.knows_lost(from, *peer)) {
    const Station& lost = job_.network_.station(*peer);
    return Failure{Code::peer_lost, lost.detail, lost.name, 0};
  }
  const MessageKind kind = message.kind;
  append_if_alive(
      {EventKind::sent, to.worker, static_cast<std::uint64_t>(kind), message.size_bytes()});
  Duration extra{};
  if (job_.faults_->armed()) {
    std::vector<Firing> fired;
    extra = job_.faults_->extra_delay(spec_.rank, to.worker, kind, now(), fired);
    for (const Firing& firing : fired) job_.carry_out(firing, this);
  }
  job_.network_.send(from, *peer, lane, std::move(message), recorder_.lamport(), now(), extra);
  return {};
}

Result<Envelope> Worker::receive(StationId self, const bool& closed, Time deadline) {
  job_.scheduler_.begin_wait({"a message", {}});
  settle();
  for (;;) {
    if (!alive_) {
      park(deadline, {"a message", {}});
      return stopped(spec_.name + " is over");
    }
    if (closed) return stopped("the endpoint was closed");
    if (auto arrived = job_.network_.take(self)) {
      note_received(*arrived);
      return std::move(arrived->envelope);
    }
    if (now() >= deadline) {
      return Failure{Code::timed_out, "no message came before the deadline", {}, 0};
    }
    job_.network_.set_receiver(self, job_.scheduler_.current());
    job_.scheduler_.park(deadline, {"a message", {}});
    job_.network_.set_receiver(self, {});
  }
}

void Worker::note_received(const Arrived& arrived) {
  const std::uint16_t peer = arrived.envelope.from.worker;
  if (const auto* received = std::get_if<Received>(&arrived.envelope.what)) {
    recorder_.observe(arrived.lamport);
    append_if_alive({EventKind::received, peer, static_cast<std::uint64_t>(received->message.kind),
                     arrived.size_bytes});
  } else if (const auto* lost = std::get_if<PeerLost>(&arrived.envelope.what)) {
    append_if_alive({EventKind::peer_lost, peer, static_cast<std::uint64_t>(lost->cause), 0});
  }
}

void Worker::sleep_until(Time time) {
  job_.scheduler_.begin_wait({"time", {}});
  settle();
  do {
    if (now() < time) park(time, {"time", {}});
  } while (alive_ && now() < time);
}

Result<std::unique_ptr<Endpoint>> Worker::open(std::string_view name) {
  if (name == spec_.name && !std::exchange(own_endpoint_open_, true)) {
    return std::unique_ptr<Endpoint>(std::make_unique<VirtualEndpoint>(*this, stations_.front()));
  }
  if (!alive_) return stopped(spec_.name + " is over");
  Address address = spec_.address;
  address.endpoint = static_cast<std::uint16_t>(stations_.size());
  const Status published = job_.publish(name, address);
  if (!published.ok()) return published.failure();
  stations_.push_back(job_.network_.add(address, std::string(name), host_));
  return std::unique_ptr<Endpoint>(std::make_unique<VirtualEndpoint>(*this, stations_.back()));
}

Result<Address> Worker::find(std::string_view name, Time deadline) {
  job_.scheduler_.begin_wait({"an address", {}});
  settle();
  for (;;) {
    Result<Address> found = job_.look_up(name);
    if (found.ok() || now() >= deadline) return found;
    job_.finders_.push_back({std::string(name), current()});
    park(deadline, {"an address", std::string(name)});
    std::erase_if(job_.finders_, [self = current()](const auto& f) { return f.task == self; });
    if (!alive_) return stopped(spec_.name + " is over");
  }
}

Status Worker::publish(std::string_view name, const Address& address) {
  return alive_ ? job_.publish(name, address) : Status{};
}

TaskId Worker::spawn(std::string name, Duty duty, std::function<void()> body) {
  return job_.scheduler_.spawn(group_, std::move(name), duty, std::move(body));
}

Wake Worker::park(Time deadline, WaitReason reason) {
  return job_.scheduler_.park(deadline, std::move(reason));
}

void Worker::offload(const Cost& cost, std::function<void()> work) {
  job_.scheduler_.begin_wait({"offloaded work", {}});
  settle();
  std::exception_ptr error;
  try {
    work();
  } catch (const Cancelled&) {
    throw;
  } catch (...) {
    error = std::current_exception();
  }
  const Time done = now() + job_.physics_.duration(host_, cost);
  do {
    if (now() < done) job_.scheduler_.park_shielded(done, {"offloaded work", {}});
  } while (alive_ && now() < done);
  if (error) std::rethrow_exception(error);
}

Result<ChildId> Worker::start(const ProcessSpec& spec, const Address&) {
  return Failure{Code::cannot_start,
                 fmt::format("cannot start {}: not supported yet in virtual worlds", spec.name),
                 spec_.name, 0};
}

Status Worker::signal(ChildId, Signal) {
  return Failure{Code::not_found, "no such child: starting is not supported yet", spec_.name, 0};
}

Status Worker::put(std::string_view object, Bytes bytes) {
  job_.scheduler_.begin_wait({"the disk", {}});
  settle();
  if (alive_) objects_.put(object, std::move(bytes));
  return {};
}

Result<Bytes> Worker::get(std::string_view object) {
  job_.scheduler_.begin_wait({"the disk", {}});
  settle();
  return objects_.get(object);
}

Result<std::vector<std::string>> Worker::list(std::string_view prefix) {
  job_.scheduler_.begin_wait({"the disk", {}});
  settle();
  return objects_.list(prefix);
}

Status Worker::remove(std::string_view object) {
  job_.scheduler_.begin_wait({"the disk", {}});
  settle();
  return alive_ ? objects_.remove(object) : Status{};
}

void Worker::charge(const Cost& cost) {
  if (!alive_) return;
  const Time from = std::max(job_.agenda_.now(), local_time_);
  local_time_ = from + job_.physics_.duration(host_, cost);
  job_.scheduler_.hold(group_, local_time_);
}

void Worker::append_if_alive(const Event& event) {
  if (alive_) job_.happened(*this, recorder_.append(event, now()));
}

void Worker::step(std::int64_t step) {
  if (alive_) job_.happened(*this, recorder_.step(step, now()));
}

void Worker::phase(std::string_view phase) {
  if (alive_) job_.happened(*this, recorder_.phase(phase, now()));
}

void Worker::journal(const JournalEntry& entry) {
  if (alive_) job_.record_.journal(entry);
}

void Worker::note(std::string_view why) {
  if (alive_) job_.record_.note(fmt::format("{}: {}", spec_.name, why));
}

void Worker::count(std::string_view counter, std::int64_t amount) {
  if (alive_) job_.record_.count(counter, amount);
}

Strike Worker::probe(std::string_view, const Address*) { return {}; }

bool Worker::rare(std::string_view) {
  return alive_ && job_.options_.rare > 0 && random_.chance(job_.options_.rare);
}

}  // namespace rehearse::virtual_world
