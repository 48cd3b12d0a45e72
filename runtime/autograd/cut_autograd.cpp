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

// --- contexts

Share* CutAutograd::find(ContextId context) {
  const auto found = shares_.find(context);
  return found == shares_.end() ? nullptr : found->second.get();
}

Failure CutAutograd::not_here(ContextId context) const {
  for (const auto& [broken, why] : broken_) {
    if (broken == context) return why;
  }
  const bool closed = closed_.contains(context);
  return {closed ? Code::context_closed : Code::unknown_context,
          closed ? fmt::format("context {:#x} is closed", context)
                 : fmt::format("no context with id {:#x} is known here", context),
          world_.self.name, context};
}

Share& CutAutograd::require(ContextId context) {
  if (Share* share = find(context)) return *share;
  throw Error(not_here(context));
}

Share& CutAutograd::create(ContextId context, const ContextPlace& place) {
  const auto self = static_cast<WorkerId>(world_.self.rank);
  auto share = std::make_unique<Share>(context, self, world_.limits, [this](const char* where) {
    return world_.faults.rare(where);
  });
  share->key.step = place.step;
  share->key.ordinal = place.ordinal;
  share->key.creator = creator_of(context);
  share->key.owner = self;
  Share& created = *(shares_[context] = std::move(share));
  world_.events.append(
      {EventKind::context_opened, creator_of(context), static_cast<std::uint64_t>(context), 0});
  return created;
}

ContextId CutAutograd::open(const ContextPlace& place) {
  if (const ContextId current = places_.current().context; current != 0) {
    throw Error({Code::bad_argument,
                 fmt::format("this task has a context already: {:#x}; close it first", current),
                 world_.self.name, current});
  }
  wait_for_a_place();
  const auto self = static_cast<WorkerId>(world_.self.rank);
  const ContextId context = make_context(
      self, static_cast<std::uint16_t>(world_.self.address.generation), next_context_++);
  create(context, place).opened_here = true;
  ++opened_;
  step_ = std::max(step_, place.step);  // which the program has said already
  return context;
}

// Back-pressure: a program that opens contexts faster than it closes them waits here.
void CutAutograd::wait_for_a_place() {
  while (opened_ >= world_.limits.contexts_open) {
    waiting_to_open_.push_back(world_.tasks.current());
    world_.tasks.park(kNever, {"another context to be closed", world_.self.name});
  }
}

void CutAutograd::close(ContextId context) {
  Share* share = find(context);
  if (!share) return;  // it could not go on, and has been freed
  perform(*share, share->core.close());
  free(context, {Code::ok, {}, {}, context});
}

void CutAutograd::free(ContextId context, const Failure& why) {
  const auto found = shares_.find(context);
  if (found == shares_.end()) return;
  // Out of the map first: what its destruction sets free must not find it.
  const std::unique_ptr<Share> share = std::move(found->second);
  shares_.erase(found);
  if (share->opened_here) {
    --opened_;
    for (const TaskId task : std::exchange(waiting_to_open_, {})) world_.tasks.unpark(task);
  }
  closed_.add(context);
  if (why.code != Code::ok) {
    constexpr std::size_t kKept = 256;  // the oldest are answered with `context_closed`
    broken_.emplace_back(context, why);
    if (broken_.size() > kKept) broken_.pop_front();
  }
  for (const WorkerId child : share->children) post(child, Close{context, why.code, why.message});
  for (const auto& [pass, caller] : share->callers) world_.tasks.unpark(caller.task);
  for (const TaskId task : share->undecided_waiters) world_.tasks.unpark(task);
  world_.events.append(
      {EventKind::context_closed, creator_of(context), static_cast<std::uint64_t>(context), 0});
}

void CutAutograd::on_close(const Address& from, const Message& message) {
  const auto close = decode<Close>(message.header);
  if (!close.ok()) return;
  const ContextId context = close.value().context;
  if (Share* share = find(context)) {
    share->children.erase(from.worker);
    perform(*share, share->core.receive(from.worker, close.value(), world_.clock.now()));
    free(context, {close.value().code, close.value().message, {}, context});
  }
  closed_.add(context);
}

// A holder asks the creator which contexts are open when a worker is lost that might have told it;
// from then on the creator tells it itself.
void CutAutograd::on_open_ask(const Address& from, const Message& message) {
  const auto ask = decode<OpenAsk>(message.header);
  if (!ask.ok()) return;
  OpenAnswer answer{ask.value().generation, next_context_, {}};
  for (const auto& [context, share] : shares_) {
    if (!share->opened_here || generation_of(context) != answer.generation) continue;
    answer.open.push_back(counter_of(context));
    share->children.insert(from.worker);
  }
  post(from.worker, answer);
}

void CutAutograd::on_open_answer(const Address& from, const Message& message) {
  const auto answer = decode<OpenAnswer>(message.header);
  if (!answer.ok()) return;
  std::vector<ContextId> over;
  for (const auto& [context, share] : shares_) {
    if (creator_of(context) != from.worker || generation_of(context) != answer.value().generation)
      continue;
    const auto& open = answer.value().open;
    const bool is_open = std::find(open.begin(), open.end(), counter_of(context)) != open.end();
    if (!is_open && counter_of(context) < answer.value().watermark) over.push_back(context);
  }
  for (const ContextId context : over) free(context, {Code::ok, {}, {}, context});
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
    perform(*share, share->core.peer_lost(worker));
    if (!find(context)) continue;
    if (creator_of(context) == worker) {
      free(context,
           {Code::peer_lost,
            fmt::format("{}, which created the context, is lost: {}", worker_name(worker), why),
            worker_name(worker), context});
    } else if (!share->opened_here) {
      creators.emplace(creator_of(context), generation_of(context));
    }
  }
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
      perform(*share, share->core.peer_lost(worker));
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
  share->send(to, tensors, header);
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
