#include "harness/runner/perturb.hpp"

#include <cstdlib>
#include <new>

#include "runtime/base/random.hpp"

namespace {

// Of the process: operator new has no other place to look. Zero: no padding.
std::uint64_t padding_state = 0;

std::size_t padding() {
  if (padding_state == 0) return 0;
  padding_state = rehearse::mix64(padding_state) | 1;
  return static_cast<std::size_t>((padding_state >> 32) % 512);
}

}  // namespace

void* operator new(std::size_t size) {
  if (void* memory = std::malloc(size + padding() + (size == 0))) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace rehearse::harness {

void perturb_allocations(std::uint64_t seed) { padding_state = mix64(seed) | 1; }

}  // namespace rehearse::harness
