#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/rpc/exceptions.hpp"
#include "runtime/rpc/place.hpp"
#include "runtime/world/world.hpp"

namespace rehearse {

template <class T>
class Future;
template <class T>
class Promise;

namespace rpc {

/// `void` is held and crosses as nothing.
struct Nothing {};
template <class T>
using Stored = std::conditional_t<std::is_void_v<T>, Nothing, T>;

/// What a future of any type shares: who waits, and what happens next.
class FutureCore {
 public:
  FutureCore(World& world, Places& places, std::string what, std::string whom, Time deadline)
      : world_(world),
        places_(places),
        what_(std::move(what)),
        whom_(std::move(whom)),
        deadline_(deadline) {}

  /// Waits until `ready()`; false at `deadline`. At the future's own deadline whoever gives the
  /// value completes it.
  bool wait(const std::function<bool()>& ready, Time deadline);
  /// It has come: wakes all who wait, runs what was registered.
  void completed();
  /// Runs `callback`, which must not wait, when the future is complete: in whichever task that is.
  void on_complete(bool ready, std::function<void()> callback);
  /// A continuation that is registered here has this place in the program, and this grad mode.
  struct Here {
    Place place;
    bool grad_enabled = true;
  };
  Here here();
  /// Runs `body` there, in a task of its own.
  void start(Here there, std::function<void()> body);

  Failure timed_out() const;
  World& world() { return world_; }
  Places& places() { return places_; }

 private:
  World& world_;
  Places& places_;
  std::string what_, whom_;
  Time deadline_;
  std::vector<TaskId> waiters_;
  std::vector<std::function<void()>> callbacks_;
};

template <class T>
struct FutureState {
  FutureState(World& world, Places& places, std::string what, std::string whom, Time deadline)
      : core(world, places, std::move(what), std::move(whom), deadline) {}
  FutureCore core;
  std::optional<Result<Stored<T>>> result;

  /// The first result counts; a later one is dropped.
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

/// What a caller waits for, whether it is returned or comes with a future.
template <class R>
struct Unwrapped {
  using type = R;
};
template <class T>
struct Unwrapped<Future<T>> {
  using type = T;
};

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
  /// of what it returns, or of what the future that it returns brings. What it throws reaches that
  /// future. Takes its place in the program here, where it is registered.
  template <class F>
  auto then(F continuation) const;

  /// For the layers of the runtime: `callback(result)` runs when this is complete, in whichever
  /// task that is, and must not wait.
  template <class F>
  void on_complete(F callback) const {
    // Weak: else a future that never completes would keep itself alive.
    state_->core.on_complete(ready(),
                             [weak = std::weak_ptr(state_), run = std::move(callback)]() mutable {
                               if (const auto state = weak.lock()) run(*state->result);
                             });
  }
  rpc::FutureCore& core() const { return state_->core; }

 private:
  friend class Promise<T>;
  explicit Future(std::shared_ptr<rpc::FutureState<T>> state) : state_(std::move(state)) {}
  std::shared_ptr<rpc::FutureState<T>> state_;
};

/// The other end of a future: whoever has it gives the value, once; what is given later is dropped.
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
  /// Takes what `other` will bring.
  void follow(const Future<T>& other) const {
    other.on_complete([promise = *this](const auto& result) { promise.set(result); });
  }

  /// Sets what `body` returns or throws, or follows the future that it returns.
  template <class F>
  void fulfil(F&& body) const {
    try {
      if constexpr (rpc::IsFuture<std::invoke_result_t<F>>::value) {
        follow(body());
      } else if constexpr (std::is_void_v<T>) {
        body();
        set();
      } else {
        set(body());
      }
    } catch (...) {
      set(rpc::failure_of_current_exception(state_->core.world().self.name));
    }
  }

 private:
  std::shared_ptr<rpc::FutureState<T>> state_;
};

template <class T>
template <class F>
auto Future<T>::then(F continuation) const {
  using R = typename rpc::Unwrapped<std::invoke_result_t<F, Future<T>>>::type;
  rpc::FutureCore& core = state_->core;
  Promise<R> chained(core.world(), core.places(), "continuation");
  auto body = [chained, weak = std::weak_ptr(state_), here = core.here(),
               run = std::move(continuation)]() mutable {
    const auto state = weak.lock();  // as in on_complete
    if (!state) return;
    state->core.start(std::move(here),
                      [chained, future = Future(state), run = std::move(run)]() mutable {
                        chained.fulfil([&] { return run(future); });
                      });
  };
  core.on_complete(ready(), std::move(body));
  return chained.future();
}

}  // namespace rehearse
