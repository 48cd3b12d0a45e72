#include "runtime/virtual/huge_heap.hpp"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace rehearse::virtual_world {
namespace {

constexpr std::uintptr_t kHugePageBytes = std::uintptr_t{2} << 20;
constexpr int kHeapBytes = 128 << 20;
constexpr int kBlockBytes = 16 << 20;
// The allocator's own bounds, that it would reach by itself: what is larger gets its own mapping.
constexpr int kMappedFromBytes = 32 << 20;
constexpr int kTopPadBytes = 128 << 10;

}  // namespace

void use_huge_pages_for_the_heap() {
  // A block makes the heap grow by much more; given back, all of it is the top of the heap.
  ::mallopt(M_MMAP_THRESHOLD, kMappedFromBytes);
  ::mallopt(M_TRIM_THRESHOLD, 2 * kHeapBytes);
  ::mallopt(M_TOP_PAD, kHeapBytes);
  void* block = std::malloc(kBlockBytes);
  ::mallopt(M_TOP_PAD, kTopPadBytes);
  const auto first =
      (reinterpret_cast<std::uintptr_t>(block) + kHugePageBytes - 1) & ~(kHugePageBytes - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(::sbrk(0)) & ~(kHugePageBytes - 1);
  // A system without huge pages says no, and nothing is lost.
  if (block && first < end) {
    (void)::madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
  }
  std::free(block);
}

}  // namespace rehearse::virtual_world
