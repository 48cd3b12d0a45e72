#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/base/bytes.hpp"
#include "runtime/base/time.hpp"

namespace rehearse {

/// A closed set: adding a kind is a change that reviewers see. Names are stable (`rehearse list
/// events`).
enum class EventKind : std::uint16_t {
  sent,       ///< peer; subject: message kind; amount: bytes
  received,   ///< peer; subject: message kind; amount: bytes
  peer_lost,  ///< peer; subject: cause
  task_failed,
  killed,          ///< the worker's own end by a fault or signal
  ended,           ///< its main task has returned
  fault_fired,     ///< subject: index of the fault
  deadline_fired,  ///< peer; subject: what was waited for
  step,            ///< subject: step number
  phase,           ///< subject: hash of the name; see `EventLog::phase`
  context_opened,  ///< subject: context
  context_closed,  ///< subject: context
  pass_started,    ///< subject: context; amount: pass
  pass_done,       ///< subject: context; amount: pass
  pass_committed,  ///< subject: context; amount: pass
  pass_aborted,    ///< subject: context; amount: pass
  step_prepared,   ///< an optimizer step is staged at this owner; peer: trainer; subject: context.
                   ///< At the trainer: at all owners; the decision has not gone out yet
  step_committed,  ///< in place at this owner; amount: how many it has seen. At the trainer: at all
  step_aborted,    ///< dropped at this owner. At the trainer: given up, perhaps to be tried again
  gradients_read,  ///< subject: context; amount: number of leaves
  gradient,        ///< a journal entry; subject: its key; amount: digest of its bits
  late_reply,      ///< a reply after its deadline; dropped and counted
};
inline constexpr int kEventKinds = static_cast<int>(EventKind::late_reply) + 1;
std::string_view name(EventKind kind);
std::optional<EventKind> event_kind(std::string_view name);

struct Event {
  EventKind kind{};
  std::uint16_t peer = 0;
  std::uint64_t subject = 0;
  std::uint64_t amount = 0;
};

/// An event with what the log adds.
struct StampedEvent {
  Event event;
  std::uint16_t rank = 0;
  std::uint16_t phase = 0;  ///< index into the run's phase names; 0: none yet
  std::uint32_t generation = 0;
  std::int64_t step = -1;  ///< -1: before the first
  std::uint64_t lamport = 0;
  Time time{};
};

/// As the step of a line: it is of a final parameter, not of a gradient.
inline constexpr std::int64_t kFinalParameters = INT64_MAX;

/// How the numbers of `JournalEntry::values` are stored.
enum class Element : std::uint8_t { float16, bfloat16, float32, float64 };

/// One line of the journal of gradients: the same key must give the same bits in every attempt and
/// in every world. Sorted by key before it is compared.
struct JournalEntry {
  std::int64_t step = 0;      ///< of the context's creator when it opened the context
  std::uint16_t creator = 0;  ///< rank of the context's creator
  std::uint32_t ordinal = 0;  ///< of the context within the creator's step
  std::uint32_t pass = 0;     ///< committed passes of the context before this one, on this owner
  std::uint16_t owner = 0;    ///< rank that holds the leaf
  std::uint32_t leaf = 0;     ///< place in the canonical order of first use on the owner
  std::uint64_t digest = 0;   ///< of dtype, sizes and bits of the accumulated gradient
  /// An `Element`, then the numbers one after the other: only with `Limits::journal_values`.
  Bytes values{};
  auto operator<=>(const JournalEntry&) const = default;
};

}  // namespace rehearse
