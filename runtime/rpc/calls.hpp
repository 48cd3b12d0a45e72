#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/result.hpp"
#include "runtime/rpc/future.hpp"
#include "runtime/rpc/place.hpp"
#include "runtime/rpc/references.hpp"
#include "runtime/rpc/wire.hpp"
#include "runtime/world/world.hpp"

namespace rehearse {

struct CallOptions {
  Duration deadline{};  ///< from now; zero: the default; `Duration::max()`: none
};

}  // namespace rehearse

namespace rehearse::rpc {

/// What a worker is asked for.
struct Request {
  /// `request`: a function's result. `remote`: a function's result, to be kept as `what`.
  /// `fetch`: the value behind `what`.
  MessageKind kind = MessageKind::request;
  std::string_view function;    ///< its name; of `fetch`: what is said about it
  std::uint64_t signature = 0;  ///< `Function::key()`
  Reference what{};
  Packed arguments{};
};

/// Brings a call to its worker and the result back. By messages in every world; in place in the
/// uncut run.
class Calls {
 public:
  using Complete = std::function<void(Result<Packed>)>;
  using OnPeerLost = std::function<void(const Failure&)>;

  Calls();
  virtual ~Calls() = default;

  /// Issues a request at the running task's place. `complete` runs once: with the result, or with
  /// what came in its place (`peer_lost`, `timed_out` at `deadline`, the remote exception, …).
  virtual void issue(int rank, Request request, Time deadline, Complete complete) = 0;

  /// Told once of each worker that is lost, after all that had arrived from it was handed on, and
  /// at once of those lost before. Must not wait. Workers of the uncut run are never lost.
  using OnLost = std::function<void(std::uint16_t worker, const std::string& why)>;
  virtual void on_lost(OnLost) {}

  /// `told` runs once that worker is lost, at once if it is; it may not wait. Nobody is ever lost
  /// in the uncut run.
  virtual void when_lost(int rank, OnPeerLost told) = 0;

  virtual References& references() = 0;
  virtual World& world() = 0;
  virtual Places& places() = 0;

  /// A request whose result is an R. `held` lives until it is complete.
  template <class R, class... Held>
  Future<R> send(int rank, Request request, const CallOptions& options, Held... held) {
    check_thread();
    const Time deadline = deadline_of(options);
    Promise<R> promise(world(), places(), "reply to " + std::string(request.function),
                       worker_name(rank), deadline);
    issue(rank, std::move(request), deadline, [promise, held...](Result<Packed> reply) {
      if (!reply.ok()) return promise.set(reply.failure());
      promise.fulfil([&reply] { return unpack<R>(reply.value()); });
    });
    return promise.future();
  }

  /// A function's result, to be kept by the callee: a reference to it.
  RefPtr remote(int rank, Request request, const CallOptions& options);

  /// A handler's own calls cannot outlast the request that it serves.
  Time deadline_of(const CallOptions& options);
  /// Of calls that name none, from now on. Zero: `Limits::call`; `Duration::max()`: none.
  void set_default_deadline(Duration deadline) { default_deadline_ = deadline; }

  /// Throws Error{bad_argument} on another thread than the worker's.
  void check_thread() const;

 private:
  template <class R>
  static R unpack(Packed& reply) {
    Unpacker from(reply);
    if constexpr (std::is_void_v<R>) {
      from.finish();
    } else {
      R value = Wire<R>::get(from);
      from.finish();
      return value;
    }
  }

  std::uint64_t thread_;  ///< that the worker belongs to
  Duration default_deadline_{};
};

}  // namespace rehearse::rpc
