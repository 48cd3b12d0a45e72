#include "runtime/real/shared_counts.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/real/socket.hpp"

namespace rehearse::real {
namespace {

Failure no_memory() {
  return {
      Code::cannot_start, fmt::format("no memory for shared counts: {}", error_text(errno)), {}, 0};
}

}  // namespace

SharedCounts::SharedCounts(Descriptor memory, std::uint64_t* counts, std::size_t size)
    : memory_(std::move(memory)), counts_(counts), size_(size) {}

SharedCounts::SharedCounts(SharedCounts&& other) noexcept
    : memory_(std::move(other.memory_)),
      counts_(std::exchange(other.counts_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

SharedCounts::~SharedCounts() {
  if (counts_) ::munmap(counts_, size_ * sizeof *counts_);
}

Result<SharedCounts> SharedCounts::create(std::size_t counters) {
  Descriptor memory(::memfd_create("counts", MFD_CLOEXEC));
  const auto size_bytes = static_cast<off_t>(counters * sizeof(std::uint64_t));
  if (!memory.valid() || ::ftruncate(memory.get(), size_bytes) != 0) return no_memory();
  return map(std::move(memory), counters);
}

Result<SharedCounts> SharedCounts::attach(int descriptor) {
  Descriptor memory(descriptor);
  struct stat about {};
  if (::fstat(memory.get(), &about) != 0) return no_memory();
  return map(std::move(memory), static_cast<std::size_t>(about.st_size) / sizeof(std::uint64_t));
}

Result<SharedCounts> SharedCounts::map(Descriptor memory, std::size_t counters) {
  void* at = ::mmap(nullptr, counters * sizeof(std::uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED,
                    memory.get(), 0);
  if (at == MAP_FAILED) return no_memory();
  return SharedCounts(std::move(memory), static_cast<std::uint64_t*>(at), counters);
}

std::uint64_t SharedCounts::next(std::size_t counter) {
  REHEARSE_CHECK(counter < size_, "no such shared counter");
  return std::atomic_ref(counts_[counter]).fetch_add(1) + 1;
}

}  // namespace rehearse::real
