#include "runtime/autograd/cut_autograd.hpp"

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>

#include "runtime/autograd/protocol.hpp"

namespace rehearse::autograd {

CutAutograd::~CutAutograd() = default;

void CutAutograd::attach(rpc::Agent& agent) {
  agent_ = &agent;
  for (const MessageKind kind :
       {MessageKind::turn_ask, MessageKind::turn, MessageKind::turn_end, MessageKind::start,
        MessageKind::done, MessageKind::fail, MessageKind::commit, MessageKind::abort,
        MessageKind::verdict_ask, MessageKind::verdict}) {
    agent.on(kind, [this](const Address& from, const Message& m) { on_pass_message(from, m); });
  }
  agent.on(MessageKind::grad,
           [this](const Address& from, Message m) { on_grad(from, std::move(m)); });
  agent.on(MessageKind::query,
           [this](const Address& from, const Message& m) { on_query(from, m); });
  agent.on(MessageKind::answer,
           [this](const Address& from, const Message& m) { on_answer(from, m); });
  agent.on(MessageKind::close,
           [this](const Address& from, const Message& m) { on_close(from, m); });
  agent.on(MessageKind::open_ask,
           [this](const Address& from, const Message& m) { on_open_ask(from, m); });
  agent.on(MessageKind::open_answer,
           [this](const Address& from, const Message& m) { on_open_answer(from, m); });
  agent.on_lost([this](std::uint16_t worker, const std::string& why) { on_lost(worker, why); });
  executing_task_ =
      world_.tasks.spawn("backward passes", Duty::background, [this] { execute_all(); });
}

std::size_t CutAutograd::live_passes() const {
  std::size_t live = 0;
  for (const auto& [id, share] : shares_) live += share->core.live_passes();
  return live;
}

void CutAutograd::on_lost(WorkerId worker, const std::string& why) {
  std::vector<ContextId> contexts;
  for (const auto& [context, share] : shares_) contexts.push_back(context);
  std::set<std::pair<WorkerId, std::uint16_t>> creators;
  for (const ContextId context : contexts) {
    Share* share = find(context);
    if (!share) continue;
    for (auto& [pass, caller] : share->callers) {
      if (!caller.asked.erase(worker)) continue;
      caller.failure =
          Failure{Code::peer_lost, fmt::format("{} is lost: {}", worker_name(worker), why),
                  worker_name(worker), context};
      world_.tasks.unpark(caller.task);
    }
    perform(*share, share->core.peer_lost(worker, why));
    const Share* left = find(context);
    if (left && !left->opened_here) creators.emplace(creator_of(context), generation_of(context));
  }
  forget_closing(worker);
  for (const auto& [creator, generation] : creators) post(creator, OpenAsk{generation});
}

// --- crossing

// A worker without a program of its own is in the step of those it serves: faults go by it.
void CutAutograd::enter_step(std::int64_t step) {
  if (step <= step_) return;
  step_ = step;
  world_.events.step(step);
}

Status CutAutograd::join(const rpc::Place& place, std::uint16_t from) {
  Share* share = find(place.context);
  if (!share) {
    const bool mine = creator_of(place.context) == world_.self.rank;
    if (mine || closed_.contains(place.context)) return not_here(place.context);
    const WorkerId creator = creator_of(place.context);
    if (agent_->lost(creator)) {
      return Failure{Code::peer_lost,
                     fmt::format("{}, which created the context, is lost", worker_name(creator)),
                     worker_name(creator), place.context};
    }
    share = &create(place.context, {place.step, place.ordinal});
    // What was lost before will not be told again.
    for (const auto& [worker, why] : agent_->all_lost())
      perform(*share, share->core.peer_lost(worker, why));
    enter_step(place.step);
  }
  share->parents.insert(from);
  return {};
}

Status CutAutograd::leave(std::uint16_t to, const std::vector<at::Tensor>& tensors,
                          Writer& header) {
  const ContextId context = places_.current().context;
  if (context == 0) {
    header.put(false);
    return {};
  }
  Share* share = find(context);
  if (!share) return not_here(context);
  if (to != world_.self.rank && !share->parents.contains(to)) share->children.insert(to);
  try {
    share->send(to, tensors, header);
  } catch (const Error& error) {
    return error.failure();
  }
  return {};
}

Status CutAutograd::enter(ContextId context, std::uint16_t from, std::vector<at::Tensor>& tensors,
                          Reader& header) {
  if (!header.get<bool>()) return {};
  Share* share = find(context);
  if (!share) return not_here(context);
  return share->receive(from, tensors, header);
}

std::vector<at::Tensor> CutAutograd::in_place(std::uint16_t,
                                              const std::vector<at::Tensor>& tensors) {
  REHEARSE_CHECK(false, "calls by messages do not run in place");
  return tensors;
}

void CutAutograd::entered(const rpc::Place& place) {
  if (Share* share = find(place.context)) {
    share->segments.open(at::sequence_number::peek(), place.path, place.issued);
  }
}

void CutAutograd::left(const rpc::Place& place) {
  if (Share* share = find(place.context)) share->segments.close(at::sequence_number::peek());
}

}  // namespace rehearse::autograd
