#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "runtime/rpc/calls.hpp"
#include "runtime/rpc/function.hpp"
#include "runtime/rpc/future_groups.hpp"
#include "runtime/rpc/remote_ref.hpp"

namespace rehearse {

/// A worker by name ("w3") or rank of the present generation.
class Peer {
 public:
  Peer(int rank) : rank_(rank) {}
  Peer(std::string_view name) : name_(name) {}
  Peer(const char* name) : name_(name) {}
  Peer(const std::string& name) : name_(name) {}

  /// Throws Error{unknown_worker}.
  int rank(int world_size) const;

 private:
  int rank_ = -1;
  std::string name_;
};

/// Calls functions on other workers, and on this one. Tensors cross with their strides; inside an
/// autograd context those that require grad stay connected to the caller's graph.
///
/// All of it belongs to the thread of its worker.
///
/// Errors are Error: `unknown_worker`, `unknown_function`, `bad_argument` (another signature),
/// `peer_lost` with the worker's name, `timed_out`, `remote_exception` with the type and text of
/// what was thrown there. Calls are never retried.
class Rpc {
 public:
  explicit Rpc(rpc::Calls& calls) : calls_(calls) {}

  /// Waits for the result.
  template <class R, class... A>
  R call(const Peer& peer, const Function<R(A...)>& function,
         std::type_identity_t<A>... arguments) {
    return async(CallOptions{}, peer, function, std::move(arguments)...).wait();
  }
  template <class R, class... A>
  R call(const CallOptions& options, const Peer& peer, const Function<R(A...)>& function,
         std::type_identity_t<A>... arguments) {
    return async(options, peer, function, std::move(arguments)...).wait();
  }

  /// Returns at once. Counts as issued here, wherever it is waited for.
  template <class R, class... A>
  Future<R> async(const Peer& peer, const Function<R(A...)>& function,
                  std::type_identity_t<A>... arguments) {
    return async(CallOptions{}, peer, function, std::move(arguments)...);
  }
  template <class R, class... A>
  Future<R> async(const CallOptions& options, const Peer& peer, const Function<R(A...)>& function,
                  std::type_identity_t<A>... arguments) {
    return calls_.send<R>(rank_of(peer), request(function, arguments...), options);
  }

  /// Returns at once. The result stays with the callee; what the function throws comes out of every
  /// use of the reference. The deadline is that of the callee's answer that it makes the value.
  template <class R, class... A>
  RemoteRef<R> remote(const Peer& peer, const Function<R(A...)>& function,
                      std::type_identity_t<A>... arguments) {
    return remote(CallOptions{}, peer, function, std::move(arguments)...);
  }
  template <class R, class... A>
  RemoteRef<R> remote(const CallOptions& options, const Peer& peer,
                      const Function<R(A...)>& function, std::type_identity_t<A>... arguments) {
    return RemoteRef<R>(calls_.remote(rank_of(peer), request(function, arguments...), options));
  }

  /// A reference to a value of this worker, for others.
  template <class T>
  RemoteRef<T> own(T value) {
    return RemoteRef<T>(
        calls_.references().own(std::make_shared<rpc::ValueOf<T>>(std::move(value))));
  }

  /// Of this worker's calls that name none, from now on: zero is `Limits::call`,
  /// `Duration::max()` none.
  void set_default_deadline(Duration deadline) { calls_.set_default_deadline(deadline); }

 private:
  int rank_of(const Peer& peer) const { return peer.rank(calls_.world().self.world_size); }

  /// Gives `arguments` away.
  template <class R, class... A>
  static rpc::Request request(const Function<R(A...)>& function, A&... arguments) {
    rpc::Request request;
    request.function = function.name();
    request.signature = function.key();
    rpc::Packer packer(request.arguments);
    (rpc::Wire<A>::put(packer, std::move(arguments)), ...);
    return request;
  }

  rpc::Calls& calls_;
};

}  // namespace rehearse
