#pragma once

#include <boost/context/fiber.hpp>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "runtime/fiber/sanitizers.hpp"
#include "runtime/fiber/scheduler.hpp"

namespace rehearse::fiber {

/// The two words that the Itanium ABI keeps per thread: caught exceptions, and how many are in the
/// air. A task that waits in a catch block must find its own again: without the swap, `throw;`
/// after the wait rethrows another task's exception.
struct ExceptionState {
  void* caught = nullptr;
  unsigned int in_flight = 0;
};
ExceptionState& exception_state();

/// The scheduler's record of a task; reused for later ones. Only the scheduler's own files see it.
/// What every switch touches comes first: with thousands of tasks each line is a cache miss.
struct alignas(64) Task : Timed {
  enum class State : std::uint8_t { free, ready, running, parked, ended };

  TaskId id;
  Group* group = nullptr;
  Task* next = nullptr;           // in its queue
  const void* stopped = nullptr;  // somewhere in the frames that it goes on with
  Duty duty = Duty::foreground;
  State state = State::free;
  bool yielded = false;         // ready, behind those that were woken
  bool shielded = false;        // its present wait takes no cancel
  bool cancel_pending = false;  // the next wait throws
  bool drains = false;          // ends the others of its group; not cancelled itself
  bool given_up = false;        // never resumed again
  Wake wake = Wake::unparked;
  boost::context::fiber fiber;   // where the task stopped
  boost::context::fiber caller;  // where `resume` was called, while it runs
  ExceptionState exceptions;
  Time since{};
  Time deadline = kNever;
  WaitReason reason;
  std::vector<const char*> refusals;  // places, outermost first
  StackUse stack;
  int tries = 0;  // of unwinding it
  std::vector<TaskId> joiners;
  std::function<void()> body;
  std::exception_ptr failure;
  std::string name;
  Task* older = nullptr;
  Task* younger = nullptr;  // in its group
};

struct Group : Timed {
  GroupId id = 0;
  Time held_until = Time::min();
  bool closed = false;
  bool stopping = false;
  int tries_max = 0;
  std::size_t foreground = 0;
  std::size_t tasks = 0;
  TaskId drainer;
  int given_up = 0;
  TaskQueue held;  // ready, but the world has not reached the group's time
  Task* oldest = nullptr;
  Task* youngest = nullptr;
  std::vector<SwitchHook*> hooks;

  void link(Task& task);
  void unlink(Task& task);
};

}  // namespace rehearse::fiber
