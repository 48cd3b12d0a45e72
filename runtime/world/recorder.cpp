#include "runtime/world/recorder.hpp"

#include <algorithm>
#include <limits>

#include "runtime/base/check.hpp"

namespace rehearse {

std::uint64_t hash_of(const StampedEvent& event) {
  const auto small = static_cast<std::uint64_t>(event.event.kind) |
                     static_cast<std::uint64_t>(event.event.peer) << 16 |
                     static_cast<std::uint64_t>(event.rank) << 32 |
                     static_cast<std::uint64_t>(event.phase) << 48;
  return Hash64()
      .add(small)
      .add(event.generation)
      .add(event.event.subject)
      .add(event.event.amount)
      .add(static_cast<std::uint64_t>(event.step))
      .add(event.lamport)
      .add(static_cast<std::uint64_t>(event.time.time_since_epoch().count()))
      .value();
}

std::uint16_t RunRecord::phase_index(std::string_view name) {
  const auto found = std::find(phases_.begin(), phases_.end(), name);
  if (found == phases_.end()) {
    REHEARSE_CHECK(phases_.size() <= std::numeric_limits<std::uint16_t>::max(),
                   "too many names of phases: a name must not carry a number");
    phases_.emplace_back(name);
    return static_cast<std::uint16_t>(phases_.size() - 1);
  }
  return static_cast<std::uint16_t>(found - phases_.begin());
}

void RunRecord::count(std::string_view counter, std::int64_t amount) {
  const auto found = counters_.find(counter);
  if (found != counters_.end()) {
    found->second += amount;
  } else {
    counters_.emplace(counter, amount);
  }
}

void RunRecord::take(const StampedEvent& event, std::uint64_t hash) {
  digest_.add(hash);
  ++events_taken_;
  if (event.event.kind == EventKind::sent) {
    ++messages_;
    bytes_ += static_cast<std::int64_t>(event.event.amount);
  }
  if (options_.keep == RecordOptions::Keep::nothing) return;
  events_.push_back(event);
  if (options_.keep == RecordOptions::Keep::last && events_.size() > options_.last_events) {
    events_.pop_front();
  }
}

void RunRecord::fill(RunOutcome& outcome) const {
  outcome.journal = journal_;
  std::sort(outcome.journal.begin(), outcome.journal.end());
  outcome.notes = notes_;
  outcome.counters = {counters_.begin(), counters_.end()};
  outcome.counters["messages"] += messages_;
  outcome.counters["bytes"] += bytes_;
  outcome.counters["events"] += events_taken_;
  outcome.digest = digest();
  outcome.events = {events_.begin(), events_.end()};
  outcome.phases = phases_;
}

const StampedEvent& Recorder::append(const Event& event, Time now) {
  last_.event = event;
  last_.rank = rank_;
  last_.generation = generation_;
  last_.time = now;
  ++last_.lamport;
  const std::uint64_t hash = hash_of(last_);
  digest_.add(hash);
  run_.take(last_, hash);
  return last_;
}

const StampedEvent& Recorder::step(std::int64_t step, Time now) {
  last_.step = step;
  return append({EventKind::step, 0, static_cast<std::uint64_t>(step), 0}, now);
}

const StampedEvent& Recorder::phase(std::string_view phase, Time now) {
  last_.phase = run_.phase_index(phase);
  return append({EventKind::phase, 0, Hash64().add(phase).value(), 0}, now);
}

}  // namespace rehearse
