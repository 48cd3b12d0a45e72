#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "runtime/base/random.hpp"
#include "runtime/rpc/any_value.hpp"
#include "runtime/rpc/future.hpp"
#include "runtime/rpc/wire.hpp"

namespace rehearse {

class Worker;

/// A function that any worker of the job may call. The handle is what `Program::function` returns;
/// keep it, or name it again with the same signature (a mismatch is `bad_argument`, at the caller).
template <class Signature>
class Function;

template <class R, class... A>
class Function<R(A...)> {
 public:
  explicit Function(std::string name)
      : name_(std::move(name)), key_(Hash64().add(name_).add(signature()).value()) {}
  const std::string& name() const { return name_; }
  /// Stands for name and signature: what a call says, so that both sides mean the same.
  std::uint64_t key() const { return key_; }

  /// "Tensor(Tensor,f32)", for people.
  static std::string signature() {
    std::string arguments;
    ((arguments += (arguments.empty() ? "" : ",") + rpc::Wire<A>::name()), ...);
    if constexpr (std::is_void_v<R>) {
      return "void(" + arguments + ")";
    } else {
      return rpc::Wire<R>::name() + "(" + arguments + ")";
    }
  }

 private:
  std::string name_;
  std::uint64_t key_;
};

namespace rpc {

/// What becomes of a function's result.
enum class Wanted { packed, kept };

class LaterResult;

/// What a function has returned.
struct Returned {
  Packed packed{};
  ValuePtr kept{};
  std::shared_ptr<LaterResult> later{};  ///< it comes with a future; nothing else is set
};

/// A result that a future will bring.
class LaterResult {
 public:
  virtual ~LaterResult() = default;
  /// Runs `callback`, which must not wait, when it is there.
  virtual void on_complete(std::function<void()> callback) = 0;
  virtual void wait() = 0;
  /// Throws what came in its place. REQUIRES: it is there.
  virtual Returned take(Wanted wanted) = 0;
};

/// Runs a function on arguments that have been taken apart.
using Handler = std::function<Returned(Worker&, Unpacker& arguments, Wanted wanted)>;

struct Registered {
  std::string signature;
  std::uint64_t key = 0;  ///< `Function::key()`
  Handler handler;
};

/// The functions of a program, by name.
using Functions = std::map<std::string, Registered, std::less<>>;

template <class F>
struct Callable : Callable<decltype(&std::remove_cvref_t<F>::operator())> {};
template <class R, class... A>
struct Callable<R (*)(A...)> {
  using Signature = typename Unwrapped<R>::type(std::decay_t<A>...);
  static constexpr bool takes_worker = false;
};
template <class R, class... A>
struct Callable<R (*)(Worker&, A...)> {
  using Signature = typename Unwrapped<R>::type(std::decay_t<A>...);
  static constexpr bool takes_worker = true;
};
template <class R, class C, class... A>
struct Callable<R (C::*)(A...) const> : Callable<R (*)(A...)> {};
template <class R, class C, class... A>
struct Callable<R (C::*)(A...)> : Callable<R (*)(A...)> {};

template <class T>
Returned returned(Stored<T> value, Wanted wanted) {
  Returned result;
  if (wanted == Wanted::kept) {
    result.kept = std::make_shared<ValueOf<T>>(std::move(value));
  } else if constexpr (!std::is_void_v<T>) {
    Packer packer(result.packed);
    Wire<T>::put(packer, std::move(value));
  }
  return result;
}

template <class T>
class LaterResultOf final : public LaterResult {
 public:
  explicit LaterResultOf(Future<T> future) : future_(std::move(future)) {}
  void on_complete(std::function<void()> callback) override {
    future_.on_complete([run = std::move(callback)](const auto&) { run(); });
  }
  void wait() override { future_.wait(); }
  Returned take(Wanted wanted) override {
    if constexpr (std::is_void_v<T>) {
      future_.wait();
      return returned<T>(Nothing{}, wanted);
    } else {
      return returned<T>(future_.wait(), wanted);
    }
  }

 private:
  Future<T> future_;
};

template <class Signature>
struct Registration;

template <class R, class... A>
struct Registration<R(A...)> {
  template <bool takes_worker, class F>
  static Registered make(F body) {
    static_assert((Crossable<A> && ...), "every argument needs a Wire or Fields specialisation");
    Handler handler = [body = std::move(body)](Worker& worker, Unpacker& from,
                                               Wanted wanted) mutable {
      std::tuple<A...> arguments{Wire<A>::get(from)...};  // braces: left to right
      from.finish();
      const auto run = [&]() -> decltype(auto) {
        return std::apply(
            [&](A&... argument) -> decltype(auto) {
              if constexpr (takes_worker) {
                return body(worker, std::move(argument)...);
              } else {
                return body(std::move(argument)...);
              }
            },
            arguments);
      };
      using Result = std::decay_t<std::invoke_result_t<decltype(run)>>;
      if constexpr (IsFuture<Result>::value) {
        Returned later;
        later.later = std::make_shared<LaterResultOf<R>>(run());
        return later;
      } else if constexpr (std::is_void_v<Result>) {
        run();
        return returned<void>(Nothing{}, wanted);
      } else {
        return returned<R>(run(), wanted);
      }
    };
    return {Function<R(A...)>::signature(), 0, std::move(handler)};
  }
};

}  // namespace rpc
}  // namespace rehearse
