#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/real/control.hpp"
#include "runtime/real/event_file.hpp"
#include "runtime/real/process_net.hpp"
#include "runtime/real/shared_counts.hpp"
#include "runtime/world/fault_engine.hpp"
#include "runtime/world/recorder.hpp"
#include "runtime/world/world.hpp"

namespace rehearse::real {

/// The event log of one process, and the place where faults strike in it. Journal, notes and
/// counters go to the launcher at once, so that a kill loses none.
class WorkerLog final : public EventLog, public Faults, public Traffic {
 public:
  /// `control` may be null: no launcher. `counts` are those of the faults' triggers, shared by all
  /// processes and taken over; -1: none.
  WorkerLog(const WorkerSpec& self, std::vector<FaultSpec> faults, int workers, int counts,
            const std::string& events_path, const Clock& clock, ControlStream* control);

  void append(const Event& event) override;
  void step(std::int64_t step) override;
  void phase(std::string_view phase) override;
  void journal(const JournalEntry& entry) override;
  void note(std::string_view why) override;
  void count(std::string_view counter, std::int64_t amount) override;
  std::uint64_t digest() const override { return recorder_.digest(); }

  Strike probe(std::string_view event, const Address* peer) override;
  bool rare(std::string_view) override { return false; }

  Leave on_send(const Address& to, const Message& message) override;
  void on_receive(const Address& from, const Message& message, std::uint64_t lamport) override;
  void on_lost(const Address& peer, LossCause cause) override;
  void on_publish(const BookEntry& entry) override;
  void on_connected(const Address& peer, Transport transport) override;
  void on_refused(const Failure& why) override;

  /// Another process has come to this.
  void happened_elsewhere(const FiredRecord& record);
  void worker_gone(int rank) { engine_.set_gone(rank); }
  /// Everything is with the launcher and on disk.
  void finish();

 private:
  FaultEngine::Count counting();
  void look(const StampedEvent& stamped);
  void carry_out(const std::vector<Firing>& firings);
  void tell(const Record& record);

  WorkerSpec self_;
  const Clock& clock_;
  ControlStream* control_;
  RunRecord run_;
  Recorder recorder_;
  std::optional<SharedCounts> counts_;
  FaultEngine engine_;
  EventFile file_;
};

}  // namespace rehearse::real
