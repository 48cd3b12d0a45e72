#pragma once

#include <string>
#include <utility>

#include "runtime/rpc/calls.hpp"
#include "runtime/rpc/references.hpp"

namespace rehearse {

/// A value that lives on one worker, its owner, and that others refer to. Made by `Rpc::remote`
/// (the result of a function, which stays with its callee) or `Worker::remote_ref` (a value of this
/// worker). Copies on one worker share one reference; an argument or a result of a call that holds
/// one, at any depth, hands a new one to the other worker. The value is freed when nobody refers to
/// it any more. A handler starts only when the owners of the references among its arguments know
/// of them.
///
/// What is thrown by the function that makes the value comes out of every use of it. A reference
/// whose creation failed (`timed_out`, `peer_lost`, …) fails alike at every use, passing it on
/// included; so does one whose owner is lost. After its worker has ended every use throws
/// Error{stopped}. References that lead to each other in a circle are never freed, and counted as
/// left at the end of the run.
///
/// Belongs to the tasks of one worker.
template <class T>
class RemoteRef {
 public:
  using Value = T;

  /// Refers to nothing: every use throws Error{bad_argument}. It crosses as it is.
  RemoteRef() = default;

  explicit operator bool() const { return handle_ != nullptr; }

  int owner() const { return held().what().ref.owner; }  ///< its rank
  std::string owner_name() const { return "w" + std::to_string(owner()); }
  bool is_owner() const { return held().home()->self() == owner(); }
  /// Whether the owner is known to know of this reference. False once it has failed.
  bool confirmed() const { return held().home()->confirmed(held().what()); }

  /// A copy of the value, when it has been made. Counts as a call to the owner, also on the owner:
  /// inside an autograd context a tensor stays connected to its graph there.
  T to_here(const CallOptions& options = {}) const { return fetch(options).wait(); }
  /// The same, without waiting.
  Future<T> fetch(const CallOptions& options = {}) const;

  /// The value itself, when it has been made; waits for it at most `Limits::call`. Throws
  /// Error{bad_argument} elsewhere than on the owner. REQUIRES: a reference is held while it is
  /// used.
  rpc::Stored<T>& local_value() const;

 private:
  friend struct rpc::Wire<RemoteRef<T>>;
  friend class Rpc;
  explicit RemoteRef(rpc::RefPtr handle) : handle_(std::move(handle)) {}

  const rpc::RefHandle& held() const {
    if (!handle_) throw Error(Code::bad_argument, "this remote reference refers to nothing");
    return *handle_;
  }

  rpc::RefPtr handle_;
};

template <class T>
Future<T> RemoteRef<T>::fetch(const CallOptions& options) const {
  const auto home = held().home();
  home->status(held().what()).or_throw();
  rpc::Request request;
  request.kind = MessageKind::fetch;
  request.function = "fetch";
  request.what = held().what();
  // The pending call holds the reference: the value must not go before it is asked for.
  return home->calls().template send<T>(owner(), std::move(request), options, handle_);
}

template <class T>
rpc::Stored<T>& RemoteRef<T>::local_value() const {
  const auto home = held().home();
  if (!is_owner()) {
    throw Error(Code::bad_argument,
                "local_value: the value is on " + owner_name() + ", not here; use to_here");
  }
  home->status(held().what()).or_throw();
  const rpc::ValuePtr value =
      home->value(held().what().ref).wait(home->calls().deadline_of(CallOptions{}));
  return static_cast<rpc::ValueOf<T>&>(*value).value;
}

}  // namespace rehearse

namespace rehearse::rpc {

template <class T>
struct Wire<RemoteRef<T>> {
  static std::string name() {
    if constexpr (std::is_void_v<T>)
      return "&void";
    else
      return "&" + Wire<T>::name();
  }
  static void put(Packer& to, const RemoteRef<T>& value) {
    if (value.handle_) value.handle_->home()->status(value.handle_->what()).or_throw();
    to.refs.push_back(value.handle_);
  }
  static RemoteRef<T> get(Unpacker& from) { return RemoteRef<T>(from.next_ref()); }
};

}  // namespace rehearse::rpc
