#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace rehearse {

/// Who, and which life of it. `worker` is a slot that keeps its number over generations; ranks are
/// looked up. A restarted process has a new incarnation: what one said is never taken for the
/// other's.
struct Address {
  std::uint64_t job = 0;
  std::uint32_t generation = 0;
  std::uint16_t worker = 0;
  std::uint16_t endpoint = 0;  ///< a process may own several: its own and its store's, say
  std::uint32_t incarnation = 0;

  auto operator<=>(const Address&) const = default;
};

/// "w2": the worker in this slot.
inline std::string worker_name(std::int64_t worker) { return "w" + std::to_string(worker); }

/// A task of one scheduler; never used twice. Zero is no task.
struct TaskId {
  std::uint64_t value = 0;
  auto operator<=>(const TaskId&) const = default;
};

/// A child that a launcher started; never used twice by that launcher.
struct ChildId {
  std::uint64_t value = 0;
  auto operator<=>(const ChildId&) const = default;
};

}  // namespace rehearse

template <>
struct std::hash<rehearse::TaskId> {
  std::size_t operator()(rehearse::TaskId id) const noexcept {
    return std::hash<std::uint64_t>{}(id.value);
  }
};
