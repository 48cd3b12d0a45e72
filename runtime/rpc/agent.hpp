#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/rpc/calls.hpp"
#include "runtime/rpc/envelope.hpp"
#include "runtime/rpc/function.hpp"
#include "runtime/rpc/handler_state.hpp"
#include "runtime/world/world.hpp"

namespace rehearse::rpc {

/// Runs `function` of `functions` on this worker. Throws Error{unknown_function, bad_argument}, and
/// what the function throws.
Packed invoke(const Functions& functions, Worker& worker, const std::string& worker_name,
              std::string_view function, std::string_view signature, Packed arguments);

/// One worker's side of RPC over messages: its calls and those that it serves. One background task
/// receives; every handler has a task of its own, so calls nest to any depth; control messages of
/// other layers are handled in the receiving task.
class Agent final : public Calls {
 public:
  using OnMessage = std::function<void(const Address& from, Message message)>;

  /// REQUIRES: `functions`, `crossing` and `worker` outlive it; `serve()` is called once, after the
  /// other layers have registered.
  Agent(World& world, std::unique_ptr<Endpoint> endpoint, Worker& worker,
        const Functions& functions, Crossing& crossing, HandlerState& handlers);
  ~Agent() override;

  void on(MessageKind kind, OnMessage handle);
  void on_lost(OnLost handle) override { on_lost_.push_back(std::move(handle)); }
  void serve();

  CallNumber issue(int rank, std::string_view function, std::string_view signature,
                   Packed arguments, Time deadline, Complete complete) override;
  void expire(CallNumber call) override;
  World& world() override { return world_; }
  Places& places() override { return places_; }

  /// A message of another layer, on its lane. A loss is told to `on_lost`, not here.
  void post(std::uint16_t worker, Lane lane, Message message);
  /// From now on the loss of `worker` is told.
  bool lost(std::uint16_t worker) const { return lost_.contains(worker); }
  const std::map<std::uint16_t, std::string>& all_lost() const { return lost_; }  ///< and why
  std::size_t pending() const { return pending_.size(); }

 private:
  struct Pending {
    std::uint16_t worker = 0;
    std::string function;
    ContextId context = 0;
    Time deadline = kNever;
    Complete complete;
  };

  void receive_all();
  void dispatch(const Address& from, Message message);
  void on_request(const Address& from, Message message);
  void on_reply(const Address& from, Message message);
  void on_error(const Address& from, Message message);
  void lose(std::uint16_t worker, const std::string& why);

  void run(const Address& from, const RequestHead& head, const Place& place, Packed arguments);
  void answer(const Address& to, std::uint64_t id, Packed result);
  void answer(const Address& to, std::uint64_t id, Failure failure);

  void complete(CallNumber call, Result<Packed> result);
  /// False at `deadline`.
  bool wait_for_credit(const Address& to, std::size_t bytes, Time deadline);
  void watch_deadlines();
  void add_deadline(Time deadline, CallNumber call);
  Result<Address> address_of(int rank);
  Place place_of(const RequestHead& head) const;

  World& world_;
  Places& places_;
  std::unique_ptr<Endpoint> endpoint_;
  Worker& worker_;
  const Functions& functions_;
  Crossing& crossing_;
  HandlerState& handler_state_;
  std::array<OnMessage, kMessageKinds> handlers_;
  std::vector<OnLost> on_lost_;
  std::map<int, Address> addresses_;
  std::map<std::uint16_t, std::string> lost_;
  std::map<CallNumber, Pending> pending_;
  std::set<std::pair<Time, CallNumber>> deadlines_;
  TaskId deadline_task_;
  Time deadline_task_until_ = kNever;
  CallNumber next_call_ = 1;
};

/// The failure that stands for a caught exception, on this worker: its code if it is an Error, else
/// `remote_exception` with type and text. REQUIRES: called in a catch block.
Failure failure_of_current_exception(const std::string& worker);

}  // namespace rehearse::rpc
