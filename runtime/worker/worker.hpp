#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <typeindex>

#include "runtime/autograd/autograd.hpp"
#include "runtime/base/random.hpp"
#include "runtime/rpc/handler_state.hpp"
#include "runtime/rpc/rpc.hpp"
#include "runtime/worker/options.hpp"
#include "runtime/world/world.hpp"

namespace rehearse {

namespace dist_autograd {
class Context;
}

/// What a job asks of its workers; the same on all of them.
struct JobSpec {
  std::string workload;
  std::int64_t steps = 1;
  int logical_shards = 1;
  Options options;
};

/// One worker of a job, as its program sees it. In simulation several live in one process: state
/// belongs into `local<T>()`, never into globals.
///
/// Belongs to one thread: its tasks take turns there. Calls, contexts and references that are used
/// on another one (in `Tasks::offload`, say) throw Error{bad_argument}.
class Worker {
 public:
  Worker(World& world, rpc::HandlerState& handlers, const JobSpec& job,
         autograd::Autograd& autograd);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  int rank() const { return world_.self.rank; }
  int world_size() const { return world_.self.world_size; }
  int local_rank() const { return world_.self.local_rank; }     ///< among the workers of its host
  const std::string& name() const { return world_.self.name; }  ///< "w3"
  c10::Device device() const { return c10::Device(c10::DeviceType::CPU); }

  std::int64_t steps() const { return job_.steps; }
  int logical_shards() const { return job_.logical_shards; }
  const Options& options() const { return job_.options; }

  /// This worker's own T, made by its default constructor when first asked for.
  template <class T>
  T& local() {
    auto& slot = locals_[std::type_index(typeid(T))];
    if (!slot) slot = std::make_shared<T>();
    return *static_cast<T*>(slot.get());
  }

  Rpc& rpc();
  Clock& clock() { return world_.clock; }
  /// A stream of random numbers of this worker, by name; the same in every run with this seed.
  Random random(std::string_view name) const;

  /// A reference to `value`, which stays on this worker, for others.
  template <class T>
  RemoteRef<T> remote_ref(T value) {
    return rpc().own(std::move(value));
  }

  /// A value that another task of this worker will give: how a handler waits for another.
  template <class T>
  Promise<T> promise(std::string what) {
    return Promise<T>(world_, places_, std::move(what), name());
  }
  /// `told` runs once, when the worker with this rank is lost, with what a call to it would fail
  /// with; at once if it is lost already. It may not wait. For what this worker does on behalf of
  /// another: a barrier, say, whose other members would wait for ever.
  void on_lost(int rank, std::function<void(const Failure&)> told);
  /// Runs `body` in a task of its own; it takes its place in the program here. What it throws
  /// reaches the future.
  template <class F>
  auto spawn(std::string what, F body) {
    Promise<typename rpc::Unwrapped<std::invoke_result_t<F>>::type> promise(world_, places_, what,
                                                                            name());
    world_.tasks.spawn(std::move(what), Duty::foreground,
                       [promise, run = std::move(body)]() mutable { promise.fulfil(run); });
    return promise.future();
  }

  /// The context of the calling task; null if it has none. On a worker that did not open it, a view
  /// that lives as long as this worker's share of the context.
  dist_autograd::Context* current_context();

  /// Says that this worker begins step `step`: faults and journals go by it.
  void step(std::int64_t step);
  /// "forward", "optimizer", … `Context` sets "forward", `backward` sets "backward".
  void phase(std::string_view phase) { world_.events.phase(phase); }

  /// How this worker ends when its program returns: graceful (the default), it serves the others
  /// until all programs have returned and what is under way is done, at most `Limits::finish` and
  /// `Limits::linger`; or at once, and the others see it as lost.
  enum class Shutdown { graceful, immediate };
  void set_shutdown(Shutdown how) { shutdown_ = how; }
  Shutdown shutdown() const { return shutdown_; }

  /// The parameters that this worker holds at the end, for comparing runs. Once.
  void report_final_parameters(const std::vector<at::Tensor>& parameters);

  // For the layers of the runtime.
  World& world() { return world_; }
  rpc::Places& places() { return places_; }
  rpc::HandlerState& handlers() { return handlers_; }
  autograd::Autograd& autograd() { return autograd_; }
  void connect(std::unique_ptr<rpc::Calls> calls);
  rpc::Calls& calls() { return *calls_; }
  /// REQUIRES: no task of the program is left.
  void forget_locals() { locals_.clear(); }
  autograd::ContextPlace next_context_place();
  std::map<ContextId, dist_autograd::Context*>& open_contexts() { return open_contexts_; }

 private:
  World& world_;
  rpc::HandlerState& handlers_;
  rpc::Places& places_;
  JobSpec job_;
  autograd::Autograd& autograd_;
  std::unique_ptr<rpc::Calls> calls_;
  std::unique_ptr<Rpc> rpc_;
  std::map<std::type_index, std::shared_ptr<void>> locals_;
  Shutdown shutdown_ = Shutdown::graceful;
  std::int64_t step_ = 0;
  std::uint32_t contexts_in_step_ = 0;
  std::map<ContextId, dist_autograd::Context*> open_contexts_;
  std::map<ContextId, std::unique_ptr<dist_autograd::Context>> views_;
};

}  // namespace rehearse
