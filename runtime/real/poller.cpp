#include "runtime/real/poller.hpp"

#include <sys/syscall.h>

#include <cerrno>
#include <ctime>

#include "runtime/base/check.hpp"

namespace rehearse::real {

Poller::Poller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  REHEARSE_CHECK(epoll_.valid(), "no epoll descriptor: too many open files");
}

void Poller::add(int descriptor, Watcher& watcher) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = &watcher;
  const int added = ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event);
  REHEARSE_CHECK(added == 0, "a descriptor cannot be watched");
}

void Poller::remove(int descriptor, const Watcher& watcher) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
  for (int i = 0; i < count_; ++i) {
    if (events_[static_cast<std::size_t>(i)].data.ptr == &watcher) {
      events_[static_cast<std::size_t>(i)].data.ptr = nullptr;
    }
  }
}

int Poller::poll(Duration timeout) {
  timespec wait{};
  const bool for_ever = timeout == Duration::max();
  if (timeout > Duration::zero() && !for_ever) {
    wait.tv_sec = timeout / std::chrono::seconds(1);
    wait.tv_nsec = (timeout % std::chrono::seconds(1)).count();
  }
  // Not epoll_wait: it rounds to milliseconds.
  count_ =
      ::epoll_pwait2(epoll_.get(), events_.data(), kBatch, for_ever ? nullptr : &wait, nullptr);
  REHEARSE_CHECK(count_ >= 0 || errno == EINTR, "epoll does not work");
  if (count_ < 0) count_ = 0;
  const int found = count_;
  for (int i = 0; i < found; ++i) {
    const epoll_event& event = events_[static_cast<std::size_t>(i)];
    if (event.data.ptr) static_cast<Watcher*>(event.data.ptr)->ready(event.events);
  }
  count_ = 0;
  return found;
}

}  // namespace rehearse::real
