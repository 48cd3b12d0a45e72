#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/random.hpp"
#include "runtime/base/time.hpp"
#include "runtime/world/event.hpp"
#include "runtime/world/message.hpp"

namespace rehearse {

/// What breaks. Names are those of scenario files (`rehearse list kinds`).
enum class FaultKind : std::uint8_t { kill, delay, reorder };
inline constexpr int kFaultKinds = 3;
std::string_view name(FaultKind kind);

/// How peers perceive a kill: an error at once, or nothing any more.
enum class SeenAs : std::uint8_t { reset, silent };

/// Whom a fault strikes. Ranks and fixed slots are the same thing until a job is elastic.
struct FaultTarget {
  enum class Kind : std::uint8_t { ranks, link, everyone } kind = Kind::everyone;
  std::vector<int> ranks;  ///< of `ranks`
  int from = 0, to = 0;    ///< of `link`: messages from -> to
  bool both = false;       ///< of `link`: and back
};

/// When it strikes: at one anchor.
struct FaultTrigger {
  enum class Anchor : std::uint8_t { step, event, time, probability } anchor = Anchor::time;
  std::int64_t step = 0;    ///< of `step`: reached by `rank`, or by the target itself
  std::string phase;        ///< of `step`: on entering this phase of it; empty: its start
  EventKind event{};        ///< of `event`: on the target
  Time time{};              ///< of `time`
  double probability = 0;   ///< of `probability`: per message (delay, reorder), per step (kill)
  std::optional<int> rank;  ///< of `step`: whose step
  std::uint64_t nth = 1;    ///< the how manyeth occurrence, counted over the run
};

/// A fault of a scenario file.
struct FaultSpec {
  std::string id;
  FaultKind kind{};
  FaultTarget who;
  FaultTrigger when;
  Duration lasts = Duration::max();   ///< delay and reorder: how long, from firing
  SeenAs seen_as = SeenAs::reset;     ///< kill
  Duration by{};                      ///< delay: added to each message; reorder: at most this
  Duration jitter{};                  ///< delay: up to this more, drawn from the seed
  std::vector<MessageKind> messages;  ///< delay and reorder: only these; empty: all
};

}  // namespace rehearse
