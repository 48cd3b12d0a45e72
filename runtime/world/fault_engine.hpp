#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/world/event.hpp"
#include "runtime/world/fault_plan.hpp"
#include "runtime/world/outcome.hpp"

namespace rehearse {

/// What a worker has just come to.
struct Occurrence {
  int rank = 0;
  Event event;
  std::int64_t step = -1;
  std::string_view phase;
};

/// What happens to a fault now, for the world to carry out.
struct Firing {
  /// `begins`: the trigger of a delay or reorder is met. It acts from now on, and has fired only
  /// once it has struck a message.
  enum class What : std::uint8_t { begins, fires } what = What::fires;
  std::size_t fault = 0;   ///< place in the plan
  std::vector<int> kills;  ///< ranks; empty for delay and reorder
  SeenAs seen_as = SeenAs::reset;
};

/// Decides which fault fires when: a pure function of the plan, the seed and what it is told. Every
/// fault fires at most once.
///
/// `step` and `event` are looked for on `FaultTrigger::rank` if given, else on the target: a link's
/// first end, and of several ranks (or everyone) the first to get there; all of them are struck.
/// `nth` counts what any of them comes to.
/// A kill by `probability` is drawn by each target at each of its steps, and strikes only that one.
/// A delay or reorder begins with its trigger (by `probability` at once, to be drawn for each
/// message) and has fired with the first message that it strikes.
class FaultEngine {
 public:
  /// How often the trigger of this fault has been met, this time included: for engines in several
  /// processes that work on one plan.
  using Count = std::function<std::uint64_t(std::size_t fault)>;

  /// Without `count`, what this engine is told is all there is.
  /// REQUIRES: a kill's target is no link; ranks are below `workers`.
  FaultEngine(std::vector<FaultSpec> plan, std::uint64_t seed, int workers, Count count = {});

  /// False: nothing can fire or delay any more, or at all; the other calls may be left out.
  bool armed() const { return armed_; }

  std::vector<Firing> on_event(const Occurrence& occurrence, Time now);
  /// Faults with a `time` of at most `now`.
  std::vector<Firing> on_time(Time now);
  Time next_time() const;

  /// What is added to the time in the air of a message that leaves now. Counts it: ask once a
  /// message. Order per pair and lane is the channel's matter. What strikes its first message is
  /// told in `fired`.
  Duration extra_delay(int from, int to, MessageKind kind, Time now, std::vector<Firing>& fired);

  /// Another engine that works on the same plan has come to this at `at`: it does not happen here
  /// again, and a delay or reorder acts from now on. False if it was known.
  bool elsewhere(Firing::What what, std::size_t fault, Time at);

  /// A rank that is gone is struck by nothing; a kill whose targets are all gone does not fire.
  void set_gone(int rank) { gone_[static_cast<std::size_t>(rank)] = true; }

  const FaultSpec& spec(std::size_t fault) const { return faults_[fault].spec; }
  /// In the order of the plan.
  std::vector<FaultOutcome> outcomes() const;

 private:
  struct Fault {
    FaultSpec spec;
    FaultOutcome outcome;
    std::uint64_t occurrences = 0;
    bool begun = false;  // of delay and reorder: it acts
    bool past = false;   // of a `time`: it has come
    Time ends = kNever;
    std::unordered_map<std::uint32_t, std::uint64_t> messages;  // of a pair; never iterated
    std::unordered_map<int, std::uint64_t> steps;               // of a rank; never iterated
    bool fired() const { return outcome.fired > 0; }
    bool triggered() const { return begun || fired(); }
  };

  bool listens_to(const Fault& fault, int rank) const;
  bool met(std::size_t index, const Occurrence& occurrence);
  bool drawn(std::size_t index, const Occurrence& occurrence);
  void trigger(std::size_t index, std::vector<int> targets, Time now, std::vector<Firing>& fired);
  static void begin(Fault& fault, Time at);
  static void struck(Fault& fault, Time at);
  std::vector<int> targets_of(const FaultTarget& who) const;
  Random draw(std::size_t fault, std::uint64_t a, std::uint64_t b, std::uint64_t count) const;
  Duration delay_by(std::size_t index, int from, int to, Time now, std::vector<Firing>& fired);
  void look_whether_armed();

  std::vector<Fault> faults_;
  std::uint64_t seed_;
  int workers_;
  Count count_;
  std::vector<bool> gone_;
  bool armed_ = false;
};

}  // namespace rehearse
