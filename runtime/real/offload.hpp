#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/fiber/scheduler.hpp"
#include "runtime/real/poller.hpp"

namespace rehearse::real {

/// One helper thread for work that blocks; started with the first piece of work.
class Offload final : public Watcher {
 public:
  Offload(fiber::Scheduler& scheduler, Poller& poller);
  ~Offload() override;

  /// Runs `work` on the helper thread; the calling task waits, and gets its exception.
  void run(const std::function<void()>& work);

  void ready(std::uint32_t events) override;

 private:
  struct Job {
    const std::function<void()>* work = nullptr;
    TaskId task;
    bool done = false;
    std::exception_ptr error;
  };

  void serve();

  fiber::Scheduler& scheduler_;
  Poller& poller_;
  Descriptor wake_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job*> waiting_;
  std::vector<Job*> finished_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace rehearse::real
