#include "runtime/rpc/place.hpp"

#include <utility>

namespace rehearse::rpc {

Place Place::issue() {
  Place next = *this;
  next.issued = 0;
  if (path) {
    CallPath longer = *path;
    longer.push_back(2 * issued + 1);
    next.path = std::make_shared<const CallPath>(std::move(longer));
  }
  ++issued;
  return next;
}

Place Places::issue() {
  // What follows belongs to the next even position: a new segment, though nothing switched.
  leave(*current_);
  Place next = current_->issue();
  enter(*current_);
  return next;
}

Place Places::replace(Place place) {
  leave(*current_);
  std::swap(*current_, place);
  enter(*current_);
  return place;
}

void Places::spawned(TaskId, TaskId child) { places_[child] = std::make_unique<Place>(issue()); }

void Places::resumed(TaskId task) {
  auto& place = places_[task];
  if (!place) place = std::make_unique<Place>();
  current_ = place.get();
  enter(*current_);
}

void Places::suspended(TaskId) {
  leave(*current_);
  current_ = &outside_;
}

void Places::finished(TaskId task) { places_.erase(task); }

}  // namespace rehearse::rpc
