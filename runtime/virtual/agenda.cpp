#include "runtime/virtual/agenda.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/check.hpp"

namespace rehearse::virtual_world {
namespace {

constexpr auto kLater = [](const auto& a, const auto& b) { return b.before(a); };

}  // namespace

void Agenda::push(Time at, Kind kind, std::uint32_t index, std::uint32_t receiver) {
  heap_.push_back({at, sequence_++ << 2 | static_cast<std::uint64_t>(kind), index, receiver});
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
  push(at, Kind::call, index, 0);
}

void Agenda::happen(const Entry& entry, Handler& handler) {
  switch (entry.kind()) {
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
    take_due();
    for (std::size_t i = 0; i < due_.size(); ++i) {
      look_ahead(i, handler);
      happen(due_[i], handler);
    }
  }
}

// Whether so much of the heap is due that taking it out one by one costs more than a new heap.
bool Agenda::most_is_due() const {
  constexpr std::size_t kShare = 8;
  std::size_t due = 0;
  // What is below something that is not due is not due either; few are due if they lie far apart.
  for (std::size_t i = 0, end = 1; i < std::min({end, heap_.size(), kShare * (due + 4)}); ++i) {
    if (heap_[i].at > now_) continue;
    end = 2 * i + 3;
    if (++due * kShare > heap_.size()) return true;
  }
  return false;
}

// All that is due by now, arrivals grouped by receiver.
void Agenda::take_due() {
  const auto arrives = [](const Entry& entry) { return entry.kind() == Kind::arrival; };
  const auto by_receiver = [](const Entry& a, const Entry& b) {
    return a.receiver != b.receiver ? a.receiver < b.receiver : a.order < b.order;
  };
  due_.clear();
  if (most_is_due()) {
    const auto later = [this](const Entry& entry) { return entry.at > now_; };
    const auto rest = std::partition(heap_.begin(), heap_.end(), later);
    due_.assign(rest, heap_.end());
    heap_.erase(rest, heap_.end());
    std::make_heap(heap_.begin(), heap_.end(), kLater);
    if (std::all_of(due_.begin(), due_.end(), arrives)) {
      return std::sort(due_.begin(), due_.end(), by_receiver);
    }
    std::sort(due_.begin(), due_.end(), [](const Entry& a, const Entry& b) { return a.before(b); });
  } else {
    while (next() <= now_ && !heap_.empty()) due_.push_back(pop());
  }
  for (auto first = due_.begin(); first != due_.end();) {
    first = std::find_if(first, due_.end(), arrives);
    const auto last = std::find_if_not(first, due_.end(), arrives);
    std::sort(first, last, by_receiver);
    first = last;
  }
}

// With thousands of workers nearly every access misses the caches. What comes next is known, so it
// is fetched meanwhile: that halves the time.
void Agenda::look_ahead(std::size_t from, Handler& handler) const {
  constexpr std::size_t kApart = 4;
  for (int stage = 0; stage < Handler::kStages; ++stage) {
    const std::size_t ahead = from + kApart * static_cast<std::size_t>(Handler::kStages - stage);
    if (ahead >= due_.size()) continue;
    if (due_[ahead].kind() != Kind::call) handler.comes_up(due_[ahead].index, stage);
  }
}

}  // namespace rehearse::virtual_world
