#pragma once

#include <boost/context/stack_context.hpp>
#include <cstddef>
#include <vector>

namespace rehearse::fiber {

/// Stacks of one size, each above a guard page, kept for reuse: mapping one costs 7 us, taking one
/// from here a few nanoseconds. All are unmapped at the end, those never given back too.
class StackPool {
 public:
  /// REQUIRES: `size_bytes` is a multiple of the page size. Torch needs more than 64 KiB.
  explicit StackPool(std::size_t size_bytes);
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  /// Throws Error{cannot_start} when no more can be mapped (about 32,000 in a process by default).
  boost::context::stack_context take();
  void give_back(const boost::context::stack_context& stack) { free_tops_.push_back(stack.sp); }

  std::size_t size_bytes() const { return size_bytes_; }

 private:
  std::size_t size_bytes_;
  std::vector<void*> all_lows_;
  std::vector<void*> free_tops_;
};

/// Boost.Context's StackAllocator over a pool.
struct PooledStacks {
  StackPool* pool;
  boost::context::stack_context allocate() { return pool->take(); }
  void deallocate(boost::context::stack_context& stack) { pool->give_back(stack); }
};

}  // namespace rehearse::fiber
