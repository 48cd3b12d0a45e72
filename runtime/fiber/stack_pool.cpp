#include "runtime/fiber/stack_pool.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include "runtime/base/check.hpp"
#include "runtime/base/error.hpp"

namespace rehearse::fiber {
namespace {

constexpr std::size_t kGuardBytes = 4096;

// Null if the system gives no more.
void* map_stack(std::size_t size_bytes) {
  void* low = ::mmap(nullptr, size_bytes + kGuardBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
  if (low == MAP_FAILED) return nullptr;
  if (::mprotect(low, kGuardBytes, PROT_NONE) == 0) return low;
  ::munmap(low, size_bytes + kGuardBytes);
  return nullptr;
}

}  // namespace

StackPool::StackPool(std::size_t size_bytes) : size_bytes_(size_bytes) {
  REHEARSE_CHECK(size_bytes > 0 && size_bytes % kGuardBytes == 0,
                 fmt::format("a stack of {} bytes is not a number of pages", size_bytes));
}

StackPool::~StackPool() {
  for (void* low : all_lows_) ::munmap(low, size_bytes_ + kGuardBytes);
}

boost::context::stack_context StackPool::take() {
  boost::context::stack_context stack;
  stack.size = size_bytes_;
  if (!free_tops_.empty()) {
    stack.sp = free_tops_.back();
    free_tops_.pop_back();
    return stack;
  }
  void* low = map_stack(size_bytes_);
  if (!low) {
    throw Error(Code::cannot_start,
                fmt::format("no stack for another task: the system maps no more than the {} that "
                            "there are; take fewer workers, or raise vm.max_map_count",
                            all_lows_.size()));
  }
  all_lows_.push_back(low);
  free_tops_.reserve(all_lows_.size());
  stack.sp = static_cast<char*>(low) + kGuardBytes + size_bytes_;
  return stack;
}

}  // namespace rehearse::fiber
