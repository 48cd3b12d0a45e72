#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/base/time.hpp"

namespace rehearse::virtual_world {

/// A message in the air; see `Network`.
using AirId = std::uint32_t;

/// What will happen, in total order: by time, then as it was entered; of the messages that arrive
/// at one instant without anything else between them, by receiver first: so a receiver's memory is
/// looked at once, and receivers come in the order of their memory. Holds the world's time.
class Agenda {
 public:
  /// Does what has come: one call an entry.
  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void departs(AirId message) = 0;
    virtual void arrives(AirId message) = 0;
    /// `message` will depart or arrive in a moment: its memory may be fetched. Called with stages 0
    /// to `kStages - 1`, each needing what the one before has fetched.
    virtual void comes_up(AirId message, int stage) = 0;
    static constexpr int kStages = 3;
  };

  Time now() const { return now_; }
  bool empty() const { return heap_.empty(); }
  Time next() const { return heap_.empty() ? kNever : heap_.front().at; }

  void departure(Time at, AirId message) { push(at, Kind::departure, message, 0); }
  void arrival(Time at, AirId message, std::uint32_t receiver) {
    push(at, Kind::arrival, message, receiver);
  }
  void call(Time at, std::function<void()> happen);

  /// Time passes to `now`, then what is due happens, and what that enters for `now`.
  /// REQUIRES: no earlier than before.
  void pass_to(Time now, Handler& handler);

 private:
  enum class Kind : std::uint8_t { departure, arrival, call };
  struct Entry {
    Time at;
    std::uint64_t order;  // sequence << 2 | kind: sequences differ, so kinds do not count
    std::uint32_t index;
    std::uint32_t receiver;  // of an arrival
    Kind kind() const { return static_cast<Kind>(order & 3); }
    bool before(const Entry& other) const {
      return at != other.at ? at < other.at : order < other.order;
    }
  };

  void push(Time at, Kind kind, std::uint32_t index, std::uint32_t receiver);
  bool most_is_due() const;
  void take_due();
  Entry pop();
  void happen(const Entry& entry, Handler& handler);
  void look_ahead(std::size_t from, Handler& handler) const;

  Time now_{};
  std::uint64_t sequence_ = 0;
  std::vector<Entry> heap_;
  std::vector<Entry> due_;
  std::vector<std::function<void()>> calls_;
  std::vector<std::uint32_t> free_calls_;
};

}  // namespace rehearse::virtual_world
