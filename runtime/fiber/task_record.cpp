#include "runtime/fiber/task_record.hpp"

#include <cxxabi.h>

namespace rehearse::fiber {

ExceptionState& exception_state() {
  return *reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals());
}

void TaskQueue::push(Task& task) {
  task.next = nullptr;
  (last ? last->next : first) = &task;
  last = &task;
  ++size;
}

Task* TaskQueue::pop() {
  Task* task = first;
  first = task->next;
  if (!first) last = nullptr;
  --size;
  return task;
}

void Group::link(Task& task) {
  task.older = youngest;
  task.younger = nullptr;
  (youngest ? youngest->younger : oldest) = &task;
  youngest = &task;
  ++tasks;
}

void Group::unlink(Task& task) {
  (task.older ? task.older->younger : oldest) = task.younger;
  (task.younger ? task.younger->older : youngest) = task.older;
  --tasks;
}

}  // namespace rehearse::fiber
