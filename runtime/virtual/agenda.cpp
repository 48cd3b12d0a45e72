#include "runtime/virtual/agenda.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/check.hpp"

namespace rehearse::virtual_world {
namespace {

constexpr auto kLater = [](const auto& a, const auto& b) { return b.before(a); };

}  // namespace

void Agenda::push(Time at, Kind kind, std::uint32_t index) {
  heap_.push_back({at, sequence_++ << 2 | static_cast<std::uint64_t>(kind), index});
  std::push_heap(heap_.begin(), heap_.end(), kLater);
}

Agenda::Entry Agenda::pop() {
  std::pop_heap(heap_.begin(), heap_.end(), kLater);
  const Entry entry = heap_.back();
  heap_.pop_back();
  return entry;
}

void Agenda::call(Time at, std::function<void()> happen) {
  if (free_calls_.empty()) {
    free_calls_.push_back(static_cast<std::uint32_t>(calls_.size()));
    calls_.emplace_back();
  }
  const std::uint32_t index = free_calls_.back();
  free_calls_.pop_back();
  calls_[index] = std::move(happen);
  push(at, Kind::call, index);
}

void Agenda::happen(const Entry& entry, Handler& handler) {
  switch (static_cast<Kind>(entry.order & 3)) {
    case Kind::departure:
      return handler.departs(entry.index);
    case Kind::arrival:
      return handler.arrives(entry.index);
    case Kind::call:
      const auto call = std::exchange(calls_[entry.index], nullptr);
      free_calls_.push_back(entry.index);
      return call();
  }
}

void Agenda::pass_to(Time now, Handler& handler) {
  REHEARSE_CHECK(now >= now_, "time went back");
  now_ = now;
  while (next() <= now_ && !heap_.empty()) {
    due_.clear();
    while (next() <= now_ && !heap_.empty()) due_.push_back(pop());
    for (std::size_t i = 0; i < due_.size(); ++i) {
      look_ahead(i, handler);
      happen(due_[i], handler);
    }
  }
}

// With thousands of workers nearly every access misses the caches. What comes next is known, so it
// is fetched meanwhile: that halves the time.
void Agenda::look_ahead(std::size_t from, Handler& handler) const {
  constexpr std::size_t kApart = 4;
  for (int stage = 0; stage < Handler::kStages; ++stage) {
    const std::size_t ahead = from + kApart * static_cast<std::size_t>(Handler::kStages - stage);
    if (ahead >= due_.size()) continue;
    const bool message = static_cast<Kind>(due_[ahead].order & 3) != Kind::call;
    if (message) handler.comes_up(due_[ahead].index, stage);
  }
}

}  // namespace rehearse::virtual_world
