#include "tests/programs/delivery_orders.hpp"

#include <fmt/format.h>

#include "runtime/base/check.hpp"

namespace rehearse::programs {
namespace {

bool independent(const Happening& a, const Happening& b) {
  return !a.time_passes && !b.time_passes && a.to != b.to;
}

}  // namespace

bool DeliveryOrders::advance(Fork& fork, std::size_t from) {
  for (std::size_t i = from; i < fork.possible.size(); ++i) {
    if (fork.asleep.contains(fork.possible[i])) continue;
    fork.chosen = i;
    return true;
  }
  return false;
}

// What was tried before at the fork above, or need not be tried there, still need not be tried here
// if the choice between has nothing to do with it.
void DeliveryOrders::fork(const std::vector<Happening>& possible) {
  Fork fork;
  fork.possible = possible;
  if (!forks_.empty()) {
    const Fork& above = forks_.back();
    const Happening& between = above.possible[above.chosen];
    for (const Happening& sleeping : above.asleep) {
      if (independent(sleeping, between)) fork.asleep.insert(sleeping);
    }
  }
  if (!advance(fork, 0)) {
    repeated_ = true;
    return;
  }
  forks_.push_back(std::move(fork));
}

Happening DeliveryOrders::choose(const std::vector<Happening>& possible) {
  if (!choosing_ || repeated_) return possible.front();
  if (depth_ == forks_.size()) fork(possible);
  if (repeated_) return possible.front();
  const Fork& here = forks_[depth_++];
  REHEARSE_CHECK(here.possible == possible, "the same choices lead to the same run");
  return here.possible[here.chosen];
}

bool DeliveryOrders::next() {
  depth_ = 0;
  choosing_ = true;
  repeated_ = false;
  while (!forks_.empty()) {
    Fork& last = forks_.back();
    last.asleep.insert(last.possible[last.chosen]);
    if (advance(last, last.chosen + 1)) return true;
    forks_.pop_back();
  }
  return false;
}

std::string DeliveryOrders::text() const {
  std::string text;
  for (const Fork& fork : forks_) {
    const Happening& chosen = fork.possible[fork.chosen];
    text += chosen.time_passes
                ? std::string("the loss is told; ")
                : fmt::format("w{} hears no. {} of w{}; ", chosen.to, chosen.nth, chosen.from);
  }
  return text;
}

virtual_world::ActivityId ChosenPhysics::start_transfer(virtual_world::HostId from,
                                                        virtual_world::HostId to, std::size_t,
                                                        Time now) {
  now_ = std::max(now_, now);
  const virtual_world::ActivityId id{++last_activity_};
  in_air_.emplace(Happening{false, to, from, ++sent_[{from, to}]}, id);
  return id;
}

void ChosenPhysics::cancel(virtual_world::ActivityId activity) {
  std::erase_if(in_air_, [activity](const auto& flight) { return flight.second == activity; });
}

Time ChosenPhysics::next(Time until, std::vector<virtual_world::Completion>& completions) {
  if (until <= now_) return until;
  std::vector<Happening> possible;
  for (const auto& [happening, activity] : in_air_) possible.push_back(happening);
  if (until - now_ <= kSoon) possible.push_back({.time_passes = true});
  if (possible.empty()) return now_ = until;
  const Happening chosen = orders_.choose(possible);
  if (chosen.time_passes) return now_ = until;
  const auto arriving = in_air_.find(chosen);
  completions.push_back({arriving->second, false});
  in_air_.erase(arriving);
  return now_;
}

}  // namespace rehearse::programs
