#include "runtime/fiber/timer_heap.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

namespace rehearse::fiber {
namespace {

// Compared with a plain list that is searched: the earliest comes first, of one time the one set
// first, whatever was cleared in between.
RC_GTEST_PROP(TimerHeap, GivesBackTheEarliestAndForgetsWhatWasCleared, ()) {
  struct Plain {
    Time at;
    int order;
    Timed* who;
  };
  TimerHeap heap;
  std::deque<Timed> owners;
  std::vector<Plain> plain;
  const auto earlier = [](const Plain& a, const Plain& b) {
    return std::tie(a.at, a.order) < std::tie(b.at, b.order);
  };
  for (int step = 0; step < 200; ++step) {
    const int what = *rc::gen::inRange(0, 4);
    if (what < 2) {
      owners.emplace_back();
      const Time at{Duration(*rc::gen::inRange(0, 20))};
      heap.set(owners.back(), at);
      plain.push_back({at, step, &owners.back()});
    } else if (!plain.empty() && what == 2) {
      const auto victim = plain.begin() + *rc::gen::inRange<long>(0, long(plain.size()));
      heap.clear(*victim->who);
      plain.erase(victim);
    } else if (!plain.empty()) {
      const auto first = std::min_element(plain.begin(), plain.end(), earlier);
      RC_ASSERT(heap.next() == first->at);
      RC_ASSERT(&heap.take_first() == first->who);
      plain.erase(first);
    }
    RC_ASSERT(heap.size() == plain.size());
  }
}

}  // namespace
}  // namespace rehearse::fiber
