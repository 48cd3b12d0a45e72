#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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
Returned invoke(const Functions& functions, Worker& worker, const std::string& worker_name,
                std::string_view function, std::uint64_t signature, Packed& arguments,
                Wanted wanted);

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
  void on_lost(OnLost handle) override;
  void serve();

  void issue(int rank, Request request, Time deadline, Complete complete) override;
  References& references() override { return *references_; }
  void when_lost(int rank, OnPeerLost told) override;
  World& world() override { return world_; }
  Places& places() override { return places_; }

  /// A message of another layer, on its lane. Never waits. A loss is told to `on_lost`, not here.
  void post(std::uint16_t worker, Lane lane, Message message);
  /// From now on the loss of `worker` is told.
  bool lost(std::uint16_t worker) const { return lost_.contains(worker); }
  const std::map<std::uint16_t, std::string>& all_lost() const { return lost_; }  ///< and why
  std::size_t pending() const { return pending_.size(); }
  const CountedReferences& counted() const { return *references_; }

 private:
  using CallNumber = std::uint64_t;
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
  void on_error(const Address& from, const Message& message);
  void lose(std::uint16_t worker, const std::string& why);

  /// A request that is being served.
  struct Serving {
    Address from;
    MessageKind kind = MessageKind::request;
    RequestHead head;
    Place place;
    Packed arguments;
  };
  static Wanted wanted(const Serving& serving) {
    return serving.kind == MessageKind::remote ? Wanted::kept : Wanted::packed;
  }
  /// Brings a request into its context.
  Status take(Message& message, Reader& reader, Serving& serving);
  /// Runs its handler; in a task of its own.
  void run(const std::shared_ptr<Serving>& serving);
  Returned serve(Serving& serving);
  /// Gives the result, which `get` returns or throws, to whom it is for. At the handler's place.
  void finish(const Serving& serving, const std::function<Returned()>& get);
  void answer(const Address& to, std::uint64_t id, Packed result);
  void answer(const Address& to, std::uint64_t id, Failure failure);

  Status pack(std::uint16_t to, CallNumber call, Request& request, Time deadline, Message& message);
  void complete(CallNumber call, Result<Packed> result);
  /// False at `deadline`.
  bool wait_for_credit(const Address& to, std::size_t bytes, Time deadline);
  void expire(CallNumber call);
  void watch_deadlines();
  void send_when_found(std::uint16_t worker);
  void add_deadline(Time deadline, CallNumber call);
  Result<Address> address_of(int rank);  ///< may wait
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
  std::shared_ptr<CountedReferences> references_;
  std::map<int, std::vector<OnPeerLost>> watchers_;
  std::map<int, Address> addresses_;
  std::map<std::uint16_t, std::vector<std::pair<Lane, Message>>> unaddressed_;
  std::map<std::uint16_t, std::string> lost_;
  std::map<CallNumber, Pending> pending_;
  std::set<std::pair<Time, CallNumber>> deadlines_;
  TaskId deadline_task_;
  Time deadline_task_until_ = kNever;
  CallNumber next_call_ = 1;
};

}  // namespace rehearse::rpc
