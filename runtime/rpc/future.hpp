#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/rpc/place.hpp"
#include "runtime/world/world.hpp"

namespace rehearse {

template <class T>
class Future;
template <class T>
class Promise;

namespace rpc {

/// What a future of any type shares: who waits, and what happens next.
class FutureCore {
 public:
  FutureCore(World& world, Places& places, std::string what, std::string whom, Time deadline)
      : world_(world),
        places_(places),
        what_(std::move(what)),
        whom_(std::move(whom)),
        deadline_(deadline) {}

  /// Waits until `ready()`, the future's own deadline or `deadline`; false at a deadline.
  bool wait(const std::function<bool()>& ready, Time deadline);
  /// It has come: wakes all who wait, starts what was registered.
  void completed();
  /// Runs `continuation` in a task of its own once the future is complete. Its place in the program
  /// and its grad mode are those of here, where it is registered.
  void then(bool ready, std::function<void()> continuation);

  Failure timed_out() const;
  World& world() { return world_; }
  Places& places() { return places_; }
  Time deadline() const { return deadline_; }
  std::function<void()> on_deadline;  ///< gives the call up, when its own deadline has passed

 private:
  struct Continuation {
    Place place;
    bool grad_enabled = true;
    std::function<void()> body;
  };
  void start(Continuation continuation);

  World& world_;
  Places& places_;
  std::string what_, whom_;
  Time deadline_;
  std::vector<TaskId> waiters_;
  std::vector<Continuation> continuations_;
};

/// `void` crosses as nothing.
struct Nothing {};
template <class T>
using Stored = std::conditional_t<std::is_void_v<T>, Nothing, T>;

template <class T>
struct FutureState {
  FutureState(World& world, Places& places, std::string what, std::string whom, Time deadline)
      : core(world, places, std::move(what), std::move(whom), deadline) {}
  FutureCore core;
  std::optional<Result<Stored<T>>> result;

  /// The first result counts; a later one (a reply after the deadline) is dropped.
  void set(Result<Stored<T>> value) {
    if (result) return;
    result = std::move(value);
    core.completed();
  }
};

template <class T>
struct IsFuture : std::false_type {};
template <class T>
struct IsFuture<Future<T>> : std::true_type {};

}  // namespace rpc

/// A value that comes later. Copies share it; all of them belong to one worker's tasks.
template <class T>
class Future {
 public:
  using Value = T;

  bool ready() const { return state_->result.has_value(); }

  /// The value, when it has come; throws the error that came in its place, `timed_out` at the
  /// call's own deadline. May be called again.
  T wait() const { return wait(kNever); }
  /// Throws Error{timed_out} at `deadline`; the future stays usable.
  T wait(Time deadline) const {
    if (!state_->core.wait([this] { return ready(); }, deadline))
      throw Error(state_->core.timed_out());
    if (!state_->result->ok()) throw Error(state_->result->failure());
    if constexpr (!std::is_void_v<T>) return state_->result->value();
  }

  /// `continuation(future)` runs in a task of its own once this is complete; the result is a future
  /// of what it returns. What it throws reaches that future. Takes its place in the program here,
  /// where it is registered.
  template <class F>
  auto then(F continuation) const;

 private:
  friend class Promise<T>;
  explicit Future(std::shared_ptr<rpc::FutureState<T>> state) : state_(std::move(state)) {}
  std::shared_ptr<rpc::FutureState<T>> state_;
};

/// The other end of a future: whoever has it gives the value, once.
template <class T>
class Promise {
 public:
  Promise(World& world, rpc::Places& places, std::string what, std::string whom = {},
          Time deadline = kNever)
      : state_(std::make_shared<rpc::FutureState<T>>(world, places, std::move(what),
                                                     std::move(whom), deadline)) {}

  Future<T> future() const { return Future<T>(state_); }
  void set(Result<rpc::Stored<T>> value) const { state_->set(std::move(value)); }
  void set() const requires std::is_void_v<T> { state_->set(rpc::Nothing{}); }
  rpc::FutureCore& core() const { return state_->core; }

  /// Sets what `body` returns or throws.
  template <class F>
  void fulfil(F&& body) const {
    try {
      if constexpr (std::is_void_v<T>) {
        body();
        set();
      } else {
        set(body());
      }
    } catch (const Error& error) {
      set(error.failure());
    } catch (const std::exception& error) {
      set(Failure{Code::remote_exception, error.what(), {}, 0});
    }
  }

 private:
  std::shared_ptr<rpc::FutureState<T>> state_;
};

template <class T>
template <class F>
auto Future<T>::then(F continuation) const {
  using R = std::invoke_result_t<F, Future<T>>;
  Promise<R> chained(state_->core.world(), state_->core.places(), "continuation");
  state_->core.then(ready(), [chained, future = *this, run = std::move(continuation)]() mutable {
    chained.fulfil([&] { return run(future); });
  });
  return chained.future();
}

}  // namespace rehearse
