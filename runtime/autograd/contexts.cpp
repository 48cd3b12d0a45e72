// How contexts are opened and closed on all workers.

#include <fmt/format.h>

#include <algorithm>

#include "runtime/autograd/cut_autograd.hpp"
#include "runtime/autograd/protocol.hpp"

namespace rehearse::autograd {
namespace {

// Answers to CLOSE are not urgent: they only give room to a creator that has none left.
constexpr std::size_t kToldAtOnce = 16;
constexpr Duration kToldAfter = std::chrono::milliseconds(1);

}  // namespace

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
  // Another task may have closed the context that this task had.
  if (knows(places_.current().context)) refuse_second_context(places_.current(), world_.self);
  wait_for_a_place();
  const ContextId context = context_of(world_.self, next_context_++);
  create(context, place).opened_here = true;
  ++opened_;
  step_ = std::max(step_, place.step);  // which the program has said already
  return context;
}

// Back-pressure: a program that opens contexts faster than the workers that took part in them can
// free them waits here.
void CutAutograd::wait_for_a_place() {
  const Time deadline = after(world_.clock.now(), world_.limits.backward);
  while (opened_ >= world_.limits.contexts_open) {
    waiting_to_open_.push_back(world_.tasks.current());
    const Wake wake =
        world_.tasks.park(deadline, {"another context to be closed", world_.self.name});
    if (wake == Wake::unparked) continue;
    world_.events.append({EventKind::deadline_fired, 0, static_cast<std::uint64_t>(opened_), 0});
    throw Error(Code::timed_out,
                fmt::format("{} contexts are open here, or not yet freed by all that took part; no "
                            "more are allowed",
                            opened_));
  }
}

void CutAutograd::close(ContextId context) {
  Share* share = find(context);
  if (!share) return;  // it could not go on, and has been freed
  perform(*share, share->core.close());
}

std::vector<WorkerId> CutAutograd::called(ContextId context) const {
  const auto found = shares_.find(context);
  if (found == shares_.end()) throw Error(not_here(context));
  const auto& children = found->second->children;
  return {children.begin(), children.end()};
}

void CutAutograd::free(ContextId context, const Failure& why) {
  const auto found = shares_.find(context);
  if (found == shares_.end()) return;
  // Out of the map first: what its destruction sets free must not find it.
  const std::unique_ptr<Share> share = std::move(found->second);
  shares_.erase(found);
  with_deadlines_.erase(context);
  closed_.add(context);
  if (why.code != Code::ok) {
    constexpr std::size_t kKept = 256;  // the oldest are answered with `context_closed`
    broken_.emplace_back(context, why);
    if (broken_.size() > kKept) broken_.pop_front();
  }
  std::erase_if(share->children, [this](WorkerId child) { return agent_->lost(child); });
  const std::uint32_t watermark = share->opened_here ? lowest_open() : share->watermark;
  for (const WorkerId child : share->children) {
    post(child, Close{context, why.code, why.message, watermark});
  }
  for (const auto& [pass, caller] : share->callers) world_.tasks.unpark(caller.task);
  for (const TaskId task : share->undecided_waiters) world_.tasks.unpark(task);
  world_.events.append(
      {EventKind::context_closed, creator_of(context), static_cast<std::uint64_t>(context), 0});
  closing_.emplace(context, Closing{share->closed_by, share->opened_here, share->children});
  end_closing_if_told(context);
}

/// The lowest counter of a context opened here that is open, or else of the next.
std::uint32_t CutAutograd::lowest_open() const {
  const auto first = shares_.lower_bound(context_of(world_.self, 0));
  const bool found = first != shares_.end() && first->second->opened_here;
  return found ? counter_of(first->first) : next_context_;
}

/// Once all that were told of the end of a context have freed it, so says this worker in turn.
void CutAutograd::end_closing_if_told(ContextId context) {
  const auto found = closing_.find(context);
  if (found == closing_.end() || !found->second.waiting_for.empty()) return;
  const Closing closing = std::move(found->second);
  closing_.erase(found);
  if (closing.told_by) tell_freed(*closing.told_by, context);
  if (!closing.opened_here) return;
  --opened_;
  for (const TaskId task : std::exchange(waiting_to_open_, {})) world_.tasks.unpark(task);
}

void CutAutograd::tell_freed(WorkerId to, ContextId context) {
  std::set<ContextId>& contexts = to_tell_[to];
  contexts.insert(context);
  if (contexts.size() >= kToldAtOnce) {
    post(to, Close{.freed = {contexts.begin(), contexts.end()}});
    to_tell_.erase(to);
  } else if (tell_at_ == kNever) {
    tell_at_ = world_.clock.now() + kToldAfter;
    watch(tell_at_);
  }
}

void CutAutograd::tell_all_freed() {
  tell_at_ = kNever;
  for (const auto& [to, contexts] : std::exchange(to_tell_, {})) {
    post(to, Close{.freed = {contexts.begin(), contexts.end()}});
  }
}

void CutAutograd::on_close(const Address& from, const Message& message) {
  const auto close = decode<Close>(message.header);
  if (!close.ok()) return;
  if (!close.value().freed.empty()) return on_freed(from.worker, close.value().freed);
  const ContextId context = close.value().context;
  if (Share* share = find(context)) {
    share->children.erase(from.worker);
    share->closed_by = from.worker;
    share->watermark = close.value().watermark;
    perform(*share, share->core.receive(from.worker, close.value(), world_.clock.now()));
  } else {
    tell_freed(from.worker, context);
  }
  closed_.add(context);
  closed_.add_below(context, close.value().watermark);
}

void CutAutograd::on_freed(WorkerId by, const std::vector<ContextId>& contexts) {
  for (const ContextId context : contexts) {
    const auto found = closing_.find(context);
    if (found == closing_.end()) continue;
    found->second.waiting_for.erase(by);
    end_closing_if_told(context);
  }
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
  const auto& [generation, watermark, open] = answer.value();
  std::vector<ContextId> over;
  for (const auto& [context, share] : shares_) {
    if (creator_of(context) != from.worker || generation_of(context) != generation) continue;
    const bool is_open = std::binary_search(open.begin(), open.end(), counter_of(context));
    if (!is_open && counter_of(context) < watermark) over.push_back(context);
  }
  for (const ContextId context : over) free(context, {Code::ok, {}, {}, context});
  const std::uint32_t lowest = open.empty() ? watermark : std::min(watermark, open.front());
  closed_.add_below(make_context(from.worker, generation, 0), lowest);
}

void CutAutograd::forget_closing(WorkerId lost) {
  to_tell_.erase(lost);
  std::vector<ContextId> contexts;
  for (auto& [context, closing] : closing_) {
    closing.waiting_for.erase(lost);
    if (closing.told_by == lost) closing.told_by.reset();
    contexts.push_back(context);
  }
  for (const ContextId context : contexts) end_closing_if_told(context);
}

}  // namespace rehearse::autograd
