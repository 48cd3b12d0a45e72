#include "runtime/real/offload.hpp"

#include <signal.h>
#include <sys/eventfd.h>

#include <utility>

namespace rehearse::real {

Offload::Offload(fiber::Scheduler& scheduler, Poller& poller)
    : scheduler_(scheduler), poller_(poller), wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  poller_.add(wake_.get(), *this);
}

Offload::~Offload() {
  poller_.remove(wake_.get(), *this);
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Offload::run(const std::function<void()>& work) {
  const WaitReason reason{"offloaded work", {}};
  scheduler_.begin_wait(reason);
  Job job{&work, scheduler_.current(), false, nullptr};
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(&job);
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
  changed_.notify_one();
  // Shielded: the work uses this task's stack, so the task may not unwind before it has returned.
  while (!job.done) scheduler_.park_shielded(kNever, reason);
  if (job.error) std::rethrow_exception(job.error);
}

void Offload::serve() {
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    Job* job = waiting_.front();
    waiting_.pop_front();
    lock.unlock();
    try {
      (*job->work)();
    } catch (...) {
      job->error = std::current_exception();
    }
    lock.lock();
    finished_.push_back(job);
    ::eventfd_write(wake_.get(), 1);
  }
}

void Offload::ready(std::uint32_t) {
  eventfd_t count = 0;
  ::eventfd_read(wake_.get(), &count);
  std::vector<Job*> finished;
  {
    const std::lock_guard lock(mutex_);
    finished = std::exchange(finished_, {});
  }
  for (Job* job : finished) {
    job->done = true;
    scheduler_.unpark(job->task);
  }
}

}  // namespace rehearse::real
