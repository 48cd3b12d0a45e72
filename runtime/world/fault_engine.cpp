#include "runtime/world/fault_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/base/check.hpp"

namespace rehearse {
namespace {

using Anchor = FaultTrigger::Anchor;
using Who = FaultTarget::Kind;

constexpr Duration kReorderByDefault = std::chrono::milliseconds(1);

bool contains(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

bool touches(const FaultTarget& who, int from, int to) {
  switch (who.kind) {
    case Who::everyone:
      return true;
    case Who::ranks:
      return contains(who.ranks, from) || contains(who.ranks, to);
    case Who::link:
      return (from == who.from && to == who.to) || (who.both && from == who.to && to == who.from);
  }
  return false;
}

/// Acts on messages for a while, instead of striking workers once.
bool disturbs(FaultKind kind) { return kind != FaultKind::kill; }

bool concerns(const std::vector<MessageKind>& kinds, MessageKind kind) {
  return kinds.empty() || std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

Duration up_to(Random& random, Duration most) {
  if (most <= Duration::zero()) return Duration::zero();
  return Duration(
      static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most.count()) + 1)));
}

}  // namespace

FaultEngine::FaultEngine(std::vector<FaultSpec> plan, std::uint64_t seed, int workers, Count count)
    : seed_(Random(seed).split("faults")()),
      workers_(workers),
      count_(std::move(count)),
      gone_(static_cast<std::size_t>(workers)) {
  for (FaultSpec& spec : plan) {
    REHEARSE_CHECK(spec.kind != FaultKind::kill || spec.who.kind != Who::link,
                   fmt::format("fault {}: a link cannot be killed", spec.id));
    for (int rank : spec.who.ranks) {
      REHEARSE_CHECK(rank >= 0 && rank < workers,
                     fmt::format("fault {}: rank {} of {} workers", spec.id, rank, workers));
    }
    if (spec.kind == FaultKind::reorder && spec.by == Duration{}) spec.by = kReorderByDefault;
    const bool always = disturbs(spec.kind) && spec.when.anchor == Anchor::probability;
    faults_.emplace_back();
    faults_.back().spec = std::move(spec);
    faults_.back().begun = always;
  }
  look_whether_armed();
}

// Kills that have fired are over; delays act on after firing.
void FaultEngine::look_whether_armed() {
  armed_ = std::any_of(faults_.begin(), faults_.end(), [](const Fault& fault) {
    return !fault.fired() || fault.spec.kind != FaultKind::kill;
  });
}

std::vector<int> FaultEngine::targets_of(const FaultTarget& who) const {
  if (who.kind == Who::ranks) return who.ranks;
  if (who.kind == Who::link) return {who.from, who.to};
  std::vector<int> all(static_cast<std::size_t>(workers_));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

bool FaultEngine::listens_to(const Fault& fault, int rank) const {
  const FaultTarget& who = fault.spec.who;
  if (fault.spec.when.rank) return *fault.spec.when.rank == rank;
  if (who.kind == Who::ranks) return contains(who.ranks, rank);
  return who.kind == Who::everyone || who.from == rank;
}

bool FaultEngine::met(std::size_t index, const Occurrence& occurrence) {
  Fault& fault = faults_[index];
  const FaultTrigger& when = fault.spec.when;
  if (when.anchor == Anchor::event) {
    if (occurrence.event.kind != when.event) return false;
  } else if (when.anchor == Anchor::step) {
    if (occurrence.step != when.step) return false;
    const bool phase = occurrence.event.kind == EventKind::phase && occurrence.phase == when.phase;
    if (when.phase.empty() ? occurrence.event.kind != EventKind::step : !phase) return false;
  } else {
    return false;
  }
  if (!listens_to(fault, occurrence.rank)) return false;
  return (count_ ? count_(index) : ++fault.occurrences) == when.nth;
}

bool FaultEngine::drawn(std::size_t index, const Occurrence& occurrence) {
  Fault& fault = faults_[index];
  const FaultSpec& spec = fault.spec;
  if (spec.when.anchor != Anchor::probability || spec.kind != FaultKind::kill) return false;
  if (occurrence.event.kind != EventKind::step || !listens_to(fault, occurrence.rank)) return false;
  const auto rank = static_cast<std::uint64_t>(occurrence.rank);
  return draw(index, rank, 0, fault.steps[occurrence.rank]++).chance(spec.when.probability);
}

Random FaultEngine::draw(std::size_t fault, std::uint64_t a, std::uint64_t b,
                         std::uint64_t count) const {
  return Random(Hash64().add(seed_).add(fault).add(a).add(b).add(count).value());
}

void FaultEngine::begin(Fault& fault, Time at) {
  fault.begun = true;
  fault.ends = after(at, fault.spec.lasts);
}

void FaultEngine::struck(Fault& fault, Time at) {
  fault.outcome = {1, at};
  const bool drawn = fault.spec.when.anchor == Anchor::probability;
  if (fault.begun && drawn) fault.ends = after(at, fault.spec.lasts);
}

void FaultEngine::trigger(std::size_t index, std::vector<int> targets, Time now,
                          std::vector<Firing>& fired) {
  Fault& fault = faults_[index];
  if (disturbs(fault.spec.kind)) {
    begin(fault, now);
    fired.push_back({Firing::What::begins, index, {}, {}});
    return;
  }
  std::erase_if(targets, [this](int rank) { return gone_[static_cast<std::size_t>(rank)]; });
  if (targets.empty()) return;
  struck(fault, now);
  fired.push_back({Firing::What::fires, index, std::move(targets), fault.spec.seen_as});
  look_whether_armed();
}

bool FaultEngine::elsewhere(Firing::What what, std::size_t index, Time at) {
  Fault& fault = faults_[index];
  if (what == Firing::What::begins) {
    if (fault.begun) return false;
    begin(fault, at);
    return true;
  }
  if (fault.fired()) return false;
  struck(fault, at);
  look_whether_armed();
  return true;
}

std::vector<Firing> FaultEngine::on_event(const Occurrence& occurrence, Time now) {
  std::vector<Firing> fired;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i];
    if (fault.triggered()) continue;
    if (met(i, occurrence)) {
      trigger(i, targets_of(fault.spec.who), now, fired);
    } else if (drawn(i, occurrence)) {
      trigger(i, {occurrence.rank}, now, fired);
    }
  }
  return fired;
}

std::vector<Firing> FaultEngine::on_time(Time now) {
  std::vector<Firing> fired;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    Fault& fault = faults_[i];
    const FaultTrigger& when = fault.spec.when;
    if (when.anchor != Anchor::time || when.time > now) continue;
    if (std::exchange(fault.past, true) || fault.triggered()) continue;
    trigger(i, targets_of(fault.spec.who), now, fired);
  }
  return fired;
}

Time FaultEngine::next_time() const {
  Time next = kNever;
  for (const Fault& fault : faults_) {
    const bool waits = fault.spec.when.anchor == Anchor::time && !fault.past;
    if (waits) next = std::min(next, fault.spec.when.time);
  }
  return next;
}

Duration FaultEngine::extra_delay(int from, int to, MessageKind kind, Time now,
                                  std::vector<Firing>& fired) {
  Duration total{};
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i];
    if (!fault.begun || now >= fault.ends) continue;
    if (!touches(fault.spec.who, from, to) || !concerns(fault.spec.messages, kind)) continue;
    total += delay_by(i, from, to, now, fired);
  }
  return total;
}

Duration FaultEngine::delay_by(std::size_t index, int from, int to, Time now,
                               std::vector<Firing>& fired) {
  Fault& fault = faults_[index];
  const FaultSpec& spec = fault.spec;
  const auto pair = static_cast<std::uint32_t>(from) << 16 | static_cast<std::uint32_t>(to);
  Random random = draw(index, static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to),
                       fault.messages[pair]++);
  if (spec.when.anchor == Anchor::probability && !random.chance(spec.when.probability)) {
    return Duration::zero();
  }
  if (!fault.fired()) {
    struck(fault, now);
    fired.push_back({Firing::What::fires, index, {}, {}});
  }
  if (spec.kind == FaultKind::reorder) return up_to(random, spec.by);
  return spec.by + up_to(random, spec.jitter);
}

std::vector<FaultOutcome> FaultEngine::outcomes() const {
  std::vector<FaultOutcome> result;
  for (const Fault& fault : faults_) result.push_back(fault.outcome);
  return result;
}

}  // namespace rehearse
