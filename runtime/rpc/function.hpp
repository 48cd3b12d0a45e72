#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

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
  explicit Function(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }

  /// "Tensor(Tensor,f32)": what both sides must agree on.
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
};

namespace rpc {

/// Runs a function on arguments that have been taken apart.
using Handler = std::function<void(Worker&, Unpacker& arguments, Packed& result)>;

struct Registered {
  std::string signature;
  Handler handler;
};

/// The functions of a program, by name.
using Functions = std::map<std::string, Registered, std::less<>>;

/// A handler's result is sent when it is there: a function may return a future.
template <class R>
struct Unwrapped {
  using type = R;
};
template <class T>
struct Unwrapped<Future<T>> {
  using type = T;
};

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

template <class R>
void pack_result(const R& value, Packed& result) {
  if constexpr (IsFuture<R>::value) {
    if constexpr (std::is_void_v<typename R::Value>) {
      value.wait();
    } else {
      pack_result(value.wait(), result);
    }
  } else {
    Packer packer(result);
    Wire<R>::put(packer, value);
  }
}

template <class Signature>
struct Registration;

template <class R, class... A>
struct Registration<R(A...)> {
  template <bool takes_worker, class F>
  static Registered make(F body) {
    static_assert((Crossable<A> && ...), "every argument needs a Wire or Fields specialisation");
    Handler handler = [body = std::move(body)](Worker& worker, Unpacker& from, Packed& to) mutable {
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
      if constexpr (std::is_void_v<std::invoke_result_t<decltype(run)>>) {
        run();
      } else {
        pack_result(run(), to);
      }
    };
    return {Function<R(A...)>::signature(), std::move(handler)};
  }
};

}  // namespace rpc
}  // namespace rehearse
