#pragma once

#include <rapidcheck/Gen.h>

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/world/event.hpp"

/// Random lives of a job as data: what rank 0 does, line by line, and what happens to it.
namespace rehearse::life {

inline constexpr int kWorkers = 3;

/// What rank 0 may do. A line's numbers choose among what is there; where nothing is, it does
/// nothing. So every part of a script is a script, and shrinking is free to take lines out.
enum class Verb : std::uint8_t {
  open,      ///< a context, if none is open
  close,     ///< it, with calls under way or not
  leaf,      ///< takes its own leaf
  call,      ///< tensor a times the leaf of worker b
  nested,    ///< the same, by way of worker b, at the worker after it
  async,     ///< as call, without waiting
  wait,      ///< for call a
  remote,    ///< as call; the result stays there, behind a reference
  fetch,     ///< what reference a leads to
  use,       ///< worker b fetches what reference a leads to and multiplies it by its leaf
  drop,      ///< reference a
  backward,  ///< from tensor a
  read,      ///< the gradient and the leaf of worker b
  step,      ///< of the optimizer over all leaves: leaf - gradient
};
inline constexpr int kVerbs = static_cast<int>(Verb::step) + 1;
std::string_view name(Verb verb);

struct Line {
  Verb verb = Verb::open;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
};

/// A worker is killed: before a line, or somewhere in the middle of things.
struct Death {
  int victim = 1;
  std::optional<std::size_t> line;
  EventKind event = EventKind::sent;  ///< without a line: at the nth of these on the victim
  std::uint64_t nth = 1;
};

/// Nothing that these do to messages may be noticed.
enum class Weather : std::uint8_t { calm, jitter, reorder };

struct Script {
  std::vector<Line> lines;
  std::optional<Death> death;
  Weather weather = Weather::calm;
  std::uint64_t seed = 1;
};
void showValue(const Script& script, std::ostream& out);

/// With at most `lines_max` lines. `deaths`: also those in which a worker dies.
rc::Gen<Script> scripts(int lines_max, bool deaths);

}  // namespace rehearse::life
