#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/random.hpp"
#include "runtime/world/event.hpp"
#include "runtime/world/outcome.hpp"

namespace rehearse {

/// What a run keeps of its events, besides digests and counters.
struct RecordOptions {
  enum class Keep { nothing, all, last } keep = Keep::nothing;
  std::size_t last_events = 65'536;  ///< of `last`
};

/// What all recorders of a process share: the order of events over workers, names, the journal.
class RunRecord {
 public:
  explicit RunRecord(const RecordOptions& options = {}) : options_(options) {}
  RunRecord(const RunRecord&) = delete;
  RunRecord& operator=(const RunRecord&) = delete;

  /// Index 0 is the empty name: no phase yet.
  std::uint16_t phase_index(std::string_view name);
  const std::string& phase_name(std::uint16_t index) const { return phases_[index]; }

  void journal(const JournalEntry& entry) { journal_.push_back(entry); }
  void note(std::string why) { notes_.push_back(std::move(why)); }
  void count(std::string_view counter, std::int64_t amount);

  /// Of all events of all workers in the order of appending.
  std::uint64_t digest() const { return digest_.value(); }
  const std::deque<StampedEvent>& events() const { return events_; }
  const std::vector<std::string>& notes() const { return notes_; }

  /// Journal (sorted), notes, counters (with "messages", "bytes", "events"), digest, events,
  /// phases.
  void fill(RunOutcome& outcome) const;

 private:
  friend class Recorder;
  void take(const StampedEvent& event, std::uint64_t hash);

  RecordOptions options_;
  Hash64 digest_;
  std::deque<StampedEvent> events_;
  std::vector<std::string> phases_{""};
  std::vector<JournalEntry> journal_;
  std::vector<std::string> notes_;
  std::map<std::string, std::int64_t, std::less<>> counters_;
  std::int64_t events_taken_ = 0;
  std::int64_t messages_ = 0;
  std::int64_t bytes_ = 0;
};

/// One worker's event log without a world around it: stamps events and takes their digest. The core
/// of every `EventLog`; knows no clock, no faults, no tasks.
class Recorder {
 public:
  Recorder(RunRecord& run, std::uint16_t rank, std::uint32_t generation = 0)
      : run_(run), rank_(rank), generation_(generation) {}

  /// Stamped with the next Lamport number. The result lives until the next call.
  const StampedEvent& append(const Event& event, Time now);
  /// The worker is in `step` (`phase`) from now on; appends the event of that name.
  const StampedEvent& step(std::int64_t step, Time now);
  const StampedEvent& phase(std::string_view phase, Time now);

  std::int64_t current_step() const { return last_.step; }
  std::string_view current_phase() const { return run_.phase_name(last_.phase); }

  /// Lamport clock: a message carries `lamport()` as it was after its `sent` event; the receiver
  /// observes it before its `received` event.
  std::uint64_t lamport() const { return last_.lamport; }
  std::uint64_t tick() { return ++last_.lamport; }
  void observe(std::uint64_t lamport) { last_.lamport = std::max(last_.lamport, lamport); }

  /// Of this worker's events.
  std::uint64_t digest() const { return digest_.value(); }

 private:
  RunRecord& run_;
  std::uint16_t rank_;
  std::uint32_t generation_;
  StampedEvent last_;
  Hash64 digest_;
};

/// Of all that is stamped; what digests are made of.
std::uint64_t hash_of(const StampedEvent& event);

}  // namespace rehearse
