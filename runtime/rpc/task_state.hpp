#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/fiber/task.hpp"

namespace rehearse::rpc {

/// Makes torch's thread-local state the task's own: grad and inference mode, dispatch keys,
/// autocast, saved-tensor hooks, dispatch modes, debug info, thread-local RecordFunction callbacks.
/// A task inherits it where it is spawned; what it sets then, no other task sees, nor code outside
/// any task, and it finds its own again after a wait.
///
/// Torch's default CPU generator is the task's own too, and not inherited: each task has a stream
/// that depends on its seed alone, not on how tasks interleave. The seed fills the generator's
/// whole state (torch's own seeding keeps 32 bits of it), so the stream is not that of
/// `torch::manual_seed(seed)`.
///
/// One per worker; several may share a thread. REQUIRES: all calls on that thread; of two of them,
/// only one is in a group.
class TorchTaskState final : public SwitchHook {
 public:
  using SeedOf = std::function<std::uint64_t(TaskId)>;

  /// `seed_of` is asked when a task first runs, unless `set_seed` has said it. Without it the seed
  /// is derived from the task's id, which depends on how many tasks there were before.
  explicit TorchTaskState(SeedOf seed_of = {});
  ~TorchTaskState() override;

  /// For the task that runs while the hook is added: from now on state and generator are its own.
  void adopt(TaskId running);

  /// The generator of `task` starts again with `seed`; at once if it runs.
  void set_seed(TaskId task, std::uint64_t seed);

  void spawned(TaskId parent, TaskId child) override;
  void resumed(TaskId task) override;
  void suspended(TaskId task) override;
  void finished(TaskId task) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rehearse::rpc
