#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "runtime/rpc/calls.hpp"
#include "runtime/rpc/function.hpp"

namespace rehearse {

struct CallOptions {
  Duration deadline{};  ///< from now; zero: the default, `Limits::call`; `Duration::max()`: none
};

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
    rpc::Packed packed;
    rpc::Packer packer(packed);
    (rpc::Wire<A>::put(packer, arguments), ...);
    const int rank = peer.rank(calls_.world().self.world_size);
    const Time deadline = deadline_of(options);
    Promise<R> promise(calls_.world(), calls_.places(), "reply to " + function.name(),
                       worker_name(rank), deadline);
    const auto call = calls_.issue(
        rank, function.name(), Function<R(A...)>::signature(), std::move(packed), deadline,
        [promise](Result<rpc::Packed> reply) { complete(promise, std::move(reply)); });
    promise.core().on_deadline = [&calls = calls_, call] { calls.expire(call); };
    return promise.future();
  }

  static std::string worker_name(int rank) { return fmt::format("w{}", rank); }

 private:
  Time deadline_of(const CallOptions& options) const;

  template <class R>
  static void complete(const Promise<R>& promise, Result<rpc::Packed> reply) {
    if (!reply.ok()) return promise.set(reply.failure());
    promise.fulfil([&reply]() -> R {
      rpc::Unpacker from(reply.value());
      if constexpr (std::is_void_v<R>) {
        from.finish();
      } else {
        R value = rpc::Wire<R>::get(from);
        from.finish();
        return value;
      }
    });
  }

  rpc::Calls& calls_;
};

}  // namespace rehearse
