#include "runtime/real/shared_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "runtime/real/socket.hpp"

namespace rehearse::real {
namespace {

Failure no_memory() {
  return {Code::cannot_start, fmt::format("no shared memory: {}", error_text(errno)), {}, 0};
}

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

// Huge pages need an address that is a multiple of theirs, which a mapping has by chance only: so
// more addresses are taken than needed, and the ends given back.
void* aligned_addresses(std::size_t size_bytes) {
  void* all = ::mmap(nullptr, size_bytes + kHugePageBytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  auto* first = static_cast<std::byte*>(all);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(all) % kHugePageBytes;
  if (before > 0) ::munmap(first, before);
  ::munmap(first + before + size_bytes, kHugePageBytes - before);
  return first + before;
}

void* map_whole(int descriptor, std::size_t size_bytes, bool huge) {
  void* wanted = huge ? aligned_addresses(size_bytes) : nullptr;
  const int fixed = wanted ? MAP_FIXED : 0;
  void* at = ::mmap(wanted, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | fixed,
                    descriptor, 0);
  if (at == MAP_FAILED) return nullptr;
  if (huge) ::madvise(at, size_bytes, MADV_HUGEPAGE);
  ::madvise(at, size_bytes, MADV_DONTDUMP);
  return at;
}

}  // namespace

Result<SharedMemory> SharedMemory::make(const char* label, std::size_t size_bytes, bool huge) {
  Descriptor descriptor(::memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.valid() || ::ftruncate(descriptor.get(), static_cast<off_t>(size_bytes)) != 0) {
    return no_memory();
  }
  ::fcntl(descriptor.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return map(std::move(descriptor), size_bytes, huge);
}

Result<SharedMemory> SharedMemory::map(Descriptor descriptor, std::size_t size_bytes, bool huge) {
  struct stat status {};
  const int seals = ::fcntl(descriptor.get(), F_GET_SEALS);
  // Memory that somebody can cut off under a reader would kill it.
  if (::fstat(descriptor.get(), &status) != 0 || seals < 0 || (seals & F_SEAL_SHRINK) == 0 ||
      static_cast<std::size_t>(status.st_size) != size_bytes) {
    return Failure{Code::corrupt, "what a peer shares is not the memory that was expected", {}, 0};
  }
  void* at = map_whole(descriptor.get(), size_bytes, huge);
  if (!at) return no_memory();
  return SharedMemory(std::move(descriptor), {static_cast<std::byte*>(at), size_bytes});
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : descriptor_(std::move(other.descriptor_)), bytes_(std::exchange(other.bytes_, {})) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace rehearse::real
