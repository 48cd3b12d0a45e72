// The initiator's side of a pass: its turn, who takes part, the wait for the verdict.

#include <fmt/format.h>

#include "runtime/autograd/cut_autograd.hpp"
#include "runtime/autograd/protocol.hpp"

namespace rehearse::autograd {
namespace {

Time deadline_of(const World& world, const BackwardOptions& options) {
  const Duration length =
      options.deadline == Duration::zero() ? world.limits.backward : options.deadline;
  return after(world.clock.now(), length);
}

}  // namespace

void CutAutograd::backward(ContextId context, const std::vector<at::Tensor>& roots,
                           const BackwardOptions& options) {
  Share& share = require(context);
  check_roots(roots, options);
  const Time deadline = deadline_of(world_, options);
  const PassOptions pass_options = options_of(options);
  world_.events.phase("backward");
  const PassId pass = share.core.new_pass();
  Caller& self = share.callers[pass];
  self.task = world_.tasks.current();
  self.roots = roots;
  self.options = &options;
  try {
    wait_for_turn(share, pass, deadline);
    const LiveSet live = find_live(context, pass, roots, deadline);
    Share& still = require(context);
    if (pass_options.keeps_graph()) still.remember(roots, live);
    perform(still, still.core.begin(pass, live.sends, pass_options, world_.clock.now(), deadline));
    wait_until_finished(context, pass);
  } catch (...) {
    if (Share* left = find(context)) {
      left->callers.erase(pass);
      perform(*left, left->core.cancel(pass));
    }
    throw;
  }
}

PassOptions CutAutograd::options_of(const BackwardOptions& options) {
  PassOptions result{.retain_graph = options.retain_graph,
                     .create_graph = options.create_graph,
                     .rerunnable = options.rerunnable,
                     .detect_anomaly = options.detect_anomaly,
                     .path = {}};
  if (!options.create_graph) return result;
  // What the pass records comes after what the caller has done so far.
  if (const auto path = places_.issue().path) result.path.parts = *path;
  return result;
}

// The share may be freed while this task waits: look it up again after every wait.
Caller& CutAutograd::caller(ContextId context, PassId pass) {
  Share& share = require(context);
  const auto found = share.callers.find(pass);
  if (found == share.callers.end()) throw Error(not_here(context));
  return found->second;
}

void CutAutograd::wait_for_turn(Share& share, PassId pass, Time deadline) {
  const ContextId context = share.id();
  perform(share, share.core.ask_turn(pass));
  for (;;) {
    const Caller& self = caller(context, pass);
    if (self.finished) self.finished->or_throw();
    if (self.granted) return;
    const Wake wake = world_.tasks.park(deadline, {"the turn", worker_name(creator_of(context))});
    if (wake == Wake::timed_out && !caller(context, pass).granted) {
      world_.events.append({EventKind::deadline_fired, creator_of(context), pass.counter, 0});
      throw Error({Code::timed_out, "backward: the turn did not come before the deadline",
                   worker_name(creator_of(context)), context});
    }
  }
}

LiveSet CutAutograd::find_live(ContextId context, PassId pass, const std::vector<at::Tensor>& roots,
                               Time deadline) {
  if (const LiveSet* known = require(context).remembered(roots)) return *known;
  const std::vector<PairId> reached = require(context).reached(roots);
  for (;;) {
    LiveSet live = require(context).provenance().live(reached);
    if (live.complete()) return live;
    ask_owners(require(context), pass, live);
    while (!caller(context, pass).asked.empty() && !caller(context, pass).failure) {
      const WorkerId first = *caller(context, pass).asked.begin();
      const Wake wake =
          world_.tasks.park(deadline, {"what lies behind a tensor", worker_name(first)});
      if (wake == Wake::timed_out && !caller(context, pass).asked.empty()) {
        world_.events.append({EventKind::deadline_fired, first, pass.counter, 0});
        throw Error({Code::timed_out,
                     "backward: a question about the graph was not answered before the deadline",
                     worker_name(first), context});
      }
    }
    if (const auto& failure = caller(context, pass).failure) throw Error(*failure);
  }
}

void CutAutograd::ask_owners(Share& share, PassId pass, const LiveSet& live) {
  Caller& self = caller(share.id(), pass);
  for (const auto& [owner, pairs] : live.missing) {
    if (agent_->lost(owner)) {
      throw Error({Code::peer_lost,
                   fmt::format("{}, which the roots reach, is lost", worker_name(owner)),
                   worker_name(owner), share.id()});
    }
    self.asked.insert(owner);
    self.missing[owner] = pairs;
    post(owner, Query{pass, pairs});
  }
}

void CutAutograd::wait_until_finished(ContextId context, PassId pass) {
  for (;;) {
    Share& share = require(context);
    const Caller& self = caller(context, pass);
    if (self.finished) {
      const Status status = *self.finished;
      share.callers.erase(pass);
      return status.or_throw();
    }
    const Wake wake = world_.tasks.park(share.core.next_deadline(),
                                        {"the verdict of a pass", "its participants"});
    if (wake == Wake::unparked) continue;
    if (Share* late = find(context)) {
      world_.events.append({EventKind::deadline_fired, creator_of(context), pass.counter, 0});
      perform(*late, late->core.expire(world_.clock.now()));
    }
  }
}

void CutAutograd::on_query(const Address& from, const Message& message) {
  const auto query = decode<Query>(message.header);
  if (!query.ok()) return;
  Answer answer{query.value().pass, {}};
  if (Share* share = find(answer.pass.context)) {
    answer.items = share->provenance().answer(query.value().pairs);
  }
  post(from.worker, answer);
}

void CutAutograd::on_answer(const Address& from, const Message& message) {
  const auto answer = decode<Answer>(message.header);
  if (!answer.ok()) return;
  const PassId pass = answer.value().pass;
  Share* share = find(pass.context);
  if (!share || !share->callers.contains(pass)) return;
  Caller& self = share->callers.at(pass);
  if (!self.asked.erase(from.worker)) return;
  if (!share->provenance().add_answer(self.missing[from.worker], answer.value().items)) {
    self.failure = Failure{
        Code::pass_failed,
        fmt::format("{} no longer knows what it sent in this context", worker_name(from.worker)),
        worker_name(from.worker), pass.context};
  }
  world_.tasks.unpark(self.task);
}

}  // namespace rehearse::autograd
