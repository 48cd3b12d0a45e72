#pragma once

#include <functional>
#include <map>
#include <utility>

#include "runtime/fiber/scheduler.hpp"

namespace rehearse::fiber {

/// Virtual time with happenings: what a world is to the scheduler, and nothing else.
class FakeDriver final : public Driver {
 public:
  void at(Time time, std::function<void()> happen) { events_.emplace(time, std::move(happen)); }

  Time now() override { return now_; }
  bool silent() const override { return events_.empty(); }
  void poll() override {
    if (on_poll) on_poll();
  }
  void wait(Time next_timer) override {
    if (events_.empty() || events_.begin()->first > next_timer) {
      now_ = std::max(now_, next_timer);
      return;
    }
    auto event = events_.extract(events_.begin());
    now_ = std::max(now_, event.key());
    event.mapped()();
  }

  std::function<void()> on_poll;

 private:
  Time now_{};
  std::multimap<Time, std::function<void()>> events_;
};

}  // namespace rehearse::fiber
