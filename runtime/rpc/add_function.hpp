#pragma once

#include <string>
#include <utility>

#include "runtime/rpc/function.hpp"

namespace rehearse::rpc {

/// Adds `body` under `name`; a `Worker&` as its first parameter is the callee. False if the name is
/// taken.
template <class F>
bool add_function(Functions& functions, const std::string& name, F body) {
  using Callee = Callable<std::decay_t<F>>;
  using Signature = typename Callee::Signature;
  Registered registered =
      Registration<Signature>::template make<Callee::takes_worker>(std::move(body));
  registered.key = Function<Signature>(name).key();
  return functions.emplace(name, std::move(registered)).second;
}

}  // namespace rehearse::rpc
