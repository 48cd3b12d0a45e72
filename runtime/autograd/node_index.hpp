#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

namespace rehearse::autograd {

/// Numbers distinct pointers 0, 1, 2 … in the order in which they are first seen. Open addressing
/// over memory that is reused from pass to pass: planning looks up every edge of the graph.
class NodeIndex {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;

  /// Forgets all; makes room for `expected` pointers.
  void reset(std::uint32_t expected) {
    const std::uint32_t capacity = std::bit_ceil(std::max<std::uint32_t>(64, 2 * expected));
    cells_.assign(capacity, Cell());
    shift_ = 64 - std::countr_zero(capacity);
    size_ = 0;
  }

  /// The number of `pointer`, and whether it is new. REQUIRES: `reset` was called.
  std::pair<std::uint32_t, bool> insert(const void* pointer) {
    Cell* cell = find_cell(pointer);
    if (cell->pointer) return {cell->number, false};
    *cell = {pointer, size_++};
    if (2 * size_ > cells_.size()) grow();
    return {size_ - 1, true};
  }

  std::uint32_t find(const void* pointer) {
    const Cell* cell = find_cell(pointer);
    return cell->pointer ? cell->number : kNone;
  }

  std::uint32_t size() const { return size_; }

 private:
  struct Cell {
    const void* pointer = nullptr;
    std::uint32_t number = 0;
  };

  Cell* find_cell(const void* pointer) {
    // Multiplicative hashing (Knuth): the high bits of the product are the mixed ones.
    std::uint64_t at =
        (reinterpret_cast<std::uintptr_t>(pointer) * 0x9e3779b97f4a7c15ULL) >> shift_;
    while (cells_[at].pointer && cells_[at].pointer != pointer) at = (at + 1) & (cells_.size() - 1);
    return &cells_[at];
  }

  void grow() {
    std::vector<Cell> before(2 * cells_.size());
    before.swap(cells_);
    --shift_;
    for (const Cell& cell : before) {
      if (cell.pointer) *find_cell(cell.pointer) = cell;
    }
  }

  std::vector<Cell> cells_;
  int shift_ = 0;
  std::uint32_t size_ = 0;
};

}  // namespace rehearse::autograd
