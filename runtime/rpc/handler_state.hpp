#pragma once

#include <cstdint>
#include <functional>

#include "runtime/rpc/place.hpp"
#include "runtime/rpc/task_state.hpp"

namespace rehearse::rpc {

/// Of the random numbers of code at `place`; `salt` tells places outside any context apart.
std::uint64_t seed_of(std::uint64_t job_seed, const Place& place, std::uint64_t salt);

/// Sets what surrounds a handler: its place in the program, the caller's grad mode, and random
/// numbers that depend on that place alone, not on when it runs or on which worker.
class HandlerState {
 public:
  HandlerState(Places& places, TorchTaskState& torch, std::uint64_t job_seed)
      : places_(places), torch_(torch), job_seed_(job_seed) {}

  /// Before `task` first runs: its random numbers. `salt` tells handlers without a context apart.
  void seed(TaskId task, const Place& place, std::uint64_t salt);
  /// Runs `body` as the handler at `place`, in a task of its own.
  void run(const Place& place, bool grad_enabled, const std::function<void()>& body);
  /// The same inside the caller's task, whose random numbers go on afterwards.
  void run_in_place(TaskId task, const Place& place, std::uint64_t salt,
                    const std::function<void()>& body);

  Places& places() { return places_; }

 private:
  Places& places_;
  TorchTaskState& torch_;
  std::uint64_t job_seed_;
};

}  // namespace rehearse::rpc
