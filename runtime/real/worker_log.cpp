#include "runtime/real/worker_log.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace rehearse::real {

namespace {

std::optional<SharedCounts> attached(int descriptor) {
  if (descriptor < 0) return std::nullopt;
  return SharedCounts::attach(descriptor).or_throw();
}

}  // namespace

WorkerLog::WorkerLog(const WorkerSpec& self, std::vector<FaultSpec> faults, int workers, int counts,
                     const std::string& events_path, const Clock& clock, ControlStream* control)
    : self_(self),
      clock_(clock),
      control_(control),
      recorder_(run_, static_cast<std::uint16_t>(self.rank), self.address.generation),
      counts_(attached(counts)),
      engine_(std::move(faults), self.seed, workers, counting()),
      file_(events_path) {}

FaultEngine::Count WorkerLog::counting() {
  if (!counts_) return {};
  return [this](std::size_t fault) { return counts_->next(fault); };
}

void WorkerLog::tell(const Record& record) {
  if (control_) control_->send(record);
}

void WorkerLog::append(const Event& event) { look(recorder_.append(event, clock_.now())); }
void WorkerLog::step(std::int64_t step) { look(recorder_.step(step, clock_.now())); }
void WorkerLog::phase(std::string_view phase) { look(recorder_.phase(phase, clock_.now())); }

void WorkerLog::look(const StampedEvent& stamped) {
  const std::string_view phase = recorder_.current_phase();
  file_.append(stamped, phase);
  if (!engine_.armed()) return;
  const Occurrence occurrence{self_.rank, stamped.event, stamped.step, phase};
  carry_out(engine_.on_event(occurrence, stamped.time));
}

void WorkerLog::carry_out(const std::vector<Firing>& firings) {
  bool kills_this = false;
  for (const Firing& firing : firings) {
    tell(FiredRecord{firing.what, static_cast<std::uint32_t>(firing.fault), clock_.now(),
                     firing.kills});
    kills_this |=
        std::find(firing.kills.begin(), firing.kills.end(), self_.rank) != firing.kills.end();
  }
  if (!kills_this) return;
  file_.flush();
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

void WorkerLog::journal(const JournalEntry& entry) { tell(entry); }
void WorkerLog::note(std::string_view why) { tell(NoteRecord{std::string(why)}); }

void WorkerLog::count(std::string_view counter, std::int64_t amount) {
  tell(CounterRecord{std::string(counter), amount});
}

Strike WorkerLog::probe(std::string_view, const Address*) { return {}; }

Traffic::Leave WorkerLog::on_send(const Address& to, const Message& message) {
  const auto bytes = message.size_bytes();
  append({EventKind::sent, to.worker, static_cast<std::uint64_t>(message.kind), bytes});
  Leave leave{recorder_.lamport(), {}};
  if (!engine_.armed()) return leave;
  const Time now = clock_.now();
  // Kills at a time are the launcher's; here only delays begin.
  if (engine_.next_time() <= now) (void)engine_.on_time(now);
  std::vector<Firing> fired;
  leave.held = engine_.extra_delay(self_.rank, to.worker, message.kind, now, fired);
  carry_out(fired);
  return leave;
}

void WorkerLog::on_receive(const Address& from, const Message& message, std::uint64_t lamport) {
  recorder_.observe(lamport);
  append({EventKind::received, from.worker, static_cast<std::uint64_t>(message.kind),
          message.size_bytes()});
}

void WorkerLog::on_lost(const Address& peer, LossCause cause) {
  append({EventKind::peer_lost, peer.worker, static_cast<std::uint64_t>(cause), 0});
}

void WorkerLog::on_publish(const BookEntry& entry) { tell(entry); }

void WorkerLog::on_connected(const Address&, Transport transport) {
  count(fmt::format("connections_{}", name(transport)), 1);
}

void WorkerLog::on_refused(const Failure& why) {
  count("connections_refused", 1);
  note(fmt::format("{} refused a connection: {}", self_.name, why.message));
}

void WorkerLog::happened_elsewhere(const FiredRecord& record) {
  engine_.elsewhere(record.what, record.fault, record.at);
}

void WorkerLog::finish() {
  file_.flush();
  RunOutcome outcome;
  run_.fill(outcome);
  for (const auto& [counter, amount] : outcome.counters) count(counter, amount);
}

}  // namespace rehearse::real
