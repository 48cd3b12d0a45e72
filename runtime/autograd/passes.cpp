// Every participant's side of a pass: what the core wants done, and the task that runs nodes.

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>

#include "runtime/autograd/cut_autograd.hpp"
#include "runtime/autograd/journal.hpp"
#include "runtime/autograd/protocol.hpp"
#include "runtime/rpc/tensors.hpp"

namespace rehearse::autograd {
namespace {

// What is recorded meanwhile belongs to the step of the pass at `place`; without a path, to nobody.
class Recording {
 public:
  Recording(Segments& segments, const std::shared_ptr<const CallPath>& path, std::size_t place)
      : segments_(path ? &segments : nullptr) {
    if (!segments_) return;
    segments_->open(at::sequence_number::peek(), path, static_cast<std::uint32_t>(place));
  }
  ~Recording() {
    if (segments_) segments_->close(at::sequence_number::peek());
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  Segments* segments_;
};

void append(Actions& to, Actions more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::uint64_t subject(ContextId context) { return static_cast<std::uint64_t>(context); }

}  // namespace

// Actions may bring more; the context is freed last, so that the share lives while they are done.
void CutAutograd::perform(Share& share, Actions actions) {
  const rpc::PlaceScope nowhere(places_, rpc::Place{});
  const ContextId context = share.id();
  std::optional<Failure> closed;
  while (!actions.empty()) {
    Actions more;
    for (const Action& action : actions) {
      if (const auto* close = std::get_if<CloseContext>(&action)) closed = close->failure;
      std::visit([&](const auto& one) { perform(share, one, more); }, action);
    }
    actions = std::move(more);
  }
  if (!closed) return note_deadline(share);
  dropped_ += share.core.statistics();
  // That its creator is done with it is no failure.
  free(context,
       closed->code == Code::context_closed ? Failure{Code::ok, {}, {}, context} : *closed);
}

void CutAutograd::post(const Send& send) {
  Message message{kind_of(send.message), {}, {}};
  encode_any(send.message, message.header);
  agent_->post(send.to, Lane::control, std::move(message));
}

void CutAutograd::perform(Share&, const Send& send, Actions&) { post(send); }

void CutAutograd::perform(Share& share, const Plan& plan, Actions&) {
  PassRun& run = share.runs[plan.pass];
  run.plan = plan;
  run.create_graph = plan.options.create_graph;
  run.retains_graph = plan.options.keeps_graph();
  if (run.create_graph && !plan.options.path.parts.empty()) {
    run.path = std::make_shared<const CallPath>(plan.options.path.parts);
  }
  if (share.kept) run.executor = std::move(*std::exchange(share.kept, std::nullopt));
  world_.events.phase("backward");
  world_.events.append(
      {EventKind::pass_started, plan.pass.initiator, subject(share.id()), plan.pass.counter});
  queue(share, plan.pass);
}

void CutAutograd::perform(Share& share, const Feed& feed, Actions&) {
  const auto found = share.runs.find(feed.pass);
  if (found == share.runs.end()) return;
  // Made by `on_grad`; this action is the last that needs them.
  auto& gradients = *static_cast<ArrivedGradients*>(feed.gradients.get());
  found->second.arrived.emplace_back(feed.pair, std::move(gradients));
  queue(share, feed.pass);
}

void CutAutograd::perform(Share& share, const CommitPass& commit, Actions&) {
  const auto found = share.runs.find(commit.pass);
  REHEARSE_CHECK(found != share.runs.end() && found->second.merged,
                 "a pass is committed that is not done");
  share.gradients = std::move(*found->second.merged);
  if (const auto edges = found->second.executor.key_inversions()) {
    world_.events.count("not_sequential", edges);
  }
  found->second.executor.release();
  if (found->second.retains_graph) share.kept = std::move(found->second.executor);
  share.runs.erase(found);
  world_.events.append(
      {EventKind::pass_committed, commit.pass.initiator, subject(share.id()), commit.pass.counter});
  if (world_.limits.journal_gradients) {
    share.segments.freeze();
    write_journal(world_, share.key, share.gradients.in_order(&share.segments));
  }
  ++share.key.pass;
  wake_undecided(share);
}

void CutAutograd::perform(Share& share, const DropPass& drop, Actions&) {
  if (share.runs.erase(drop.pass) > 0) {
    world_.events.append(
        {EventKind::pass_aborted, drop.pass.initiator, subject(share.id()), drop.pass.counter});
  }
  wake_undecided(share);
}

void CutAutograd::perform(Share& share, const Finished& finished, Actions&) {
  const auto found = share.callers.find(finished.pass);
  if (found == share.callers.end()) return;
  found->second.finished = finished.status;
  world_.tasks.unpark(found->second.task);
}

void CutAutograd::perform(Share& share, const TurnGranted& granted, Actions& more) {
  const auto found = share.callers.find(granted.pass);
  if (found == share.callers.end()) {
    append(more, share.core.cancel(granted.pass));  // its caller has gone
    return;
  }
  found->second.granted = true;
  world_.tasks.unpark(found->second.task);
}

void CutAutograd::perform(Share&, const CloseContext&, Actions&) {}  // at the end of the actions

void CutAutograd::wake_undecided(Share& share) {
  for (const TaskId task : std::exchange(share.undecided_waiters, {})) world_.tasks.unpark(task);
}

// --- messages

void CutAutograd::on_pass_message(const Address& from, const Message& message) {
  const auto decoded = decode_any(message.kind, message.header);
  if (!decoded.ok()) return;
  const PassMessage& said = decoded.value();
  if (Share* share = find(context_of(said))) {
    perform(*share, share->core.receive(from.worker, said, world_.clock.now()));
  } else if (const auto answer = PassCore::answer_for_closed(from.worker, said)) {
    post(*answer);
  }
}

void CutAutograd::on_grad(const Address& from, Message message) {
  auto grad = decode<Grad>(message.header);
  if (!grad.ok()) return;
  Share* share = find(grad.value().pass.context);
  if (!share) return;
  Reader reader(grad.value().tensors);
  std::size_t next_payload = 0;
  auto tensors = rpc::unpack_tensors(reader, message.payloads, next_payload);
  const PassId pass = grad.value().pass;
  if (!tensors.ok())
    return perform(*share, share->core.threw(pass, "a gradient message", tensors.failure()));
  auto gradients = std::make_shared<ArrivedGradients>();
  *gradients = {from.worker, std::move(tensors).value(), std::move(grad.value().crossing)};
  perform(*share, share->core.receive_gradients(from.worker, pass, grad.value().pair,
                                                std::move(gradients)));
}

// --- running nodes

void CutAutograd::queue(Share& share, PassId pass) {
  PassRun& run = share.runs.at(pass);
  if (run.queued) return;
  run.queued = true;
  work_.emplace_back(share.id(), pass);
  world_.tasks.unpark(executing_task_);
}

void CutAutograd::execute_all() {
  for (;;) {
    while (work_.empty()) wait_for_work();
    const auto [context, pass] = work_.front();
    work_.pop_front();
    Share* share = find(context);
    if (!share || !share->runs.contains(pass)) continue;
    share->runs.at(pass).queued = false;
    execute(*share, pass);
    if (!work_.empty()) world_.tasks.yield();
  }
}

// A participant has a deadline too: its initiator may be gone without anybody saying so.
void CutAutograd::wait_for_work() {
  executing_task_until_ = tell_at_;
  for (const ContextId context : with_deadlines_) {
    executing_task_until_ =
        std::min(executing_task_until_, shares_.at(context)->core.next_deadline());
  }
  const Wake wake = world_.tasks.park(executing_task_until_, {"gradients", {}});
  executing_task_until_ = kNever;
  if (wake != Wake::timed_out) return;
  if (tell_at_ <= world_.clock.now()) tell_all_freed();
  expire_passes();
}

void CutAutograd::watch(Time deadline) {
  if (deadline < executing_task_until_) world_.tasks.unpark(executing_task_);
}

void CutAutograd::note_deadline(const Share& share) {
  const Time deadline = share.core.next_deadline();
  if (deadline == kNever) {
    with_deadlines_.erase(share.id());
  } else {
    with_deadlines_.insert(share.id());
    watch(deadline);
  }
}

void CutAutograd::expire_passes() {
  const std::set<ContextId> contexts = with_deadlines_;
  for (const ContextId context : contexts) {
    Share* share = find(context);
    if (!share || share->core.next_deadline() > world_.clock.now()) continue;
    world_.events.append({EventKind::deadline_fired, creator_of(context), subject(context), 0});
    perform(*share, share->core.expire(world_.clock.now()));
  }
}

void CutAutograd::execute(Share& share, PassId pass) {
  PassRun& run = share.runs.at(pass);
  Status status = run.plan ? plan(share, run) : Status();
  if (status.ok()) status = feed(share, run);
  bool more = false;
  if (status.ok() && !run.executor.done()) {
    const NoWait no_wait(world_.tasks, "a node or hook of the backward pass");
    auto slice =
        run.executor.run_slice(static_cast<std::size_t>(world_.limits.executor_slice_nodes));
    if (slice.ok()) {
      more = slice.value();
    } else {
      status = slice.failure();
    }
  }
  if (status.ok()) status = send_gradients(share, pass, run);
  if (!status.ok()) {
    Failure failure = status.failure();
    if (failure.worker.empty()) failure.worker = world_.self.name;
    failure.context = share.id();
    return perform(share, share.core.threw(pass, "", failure));
  }
  if (more) return queue(share, pass);
  if (run.executor.done() && !run.merged) finish(share, pass, run);
}

Status CutAutograd::plan(Share& share, PassRun& run) {
  const Plan plan = *std::exchange(run.plan, std::nullopt);
  share.segments.freeze();
  std::vector<Root> roots;
  ExecutorOptions options;
  options.context = share.id();
  options.retain_graph = plan.options.retain_graph;
  options.create_graph = plan.options.create_graph;
  options.rerunnable = plan.options.rerunnable;
  options.detect_anomaly = plan.options.detect_anomaly;
  options.path = run.path;
  options.segments = &share.segments;
  if (const auto found = share.callers.find(plan.pass);
      plan.initiator && found != share.callers.end()) {
    const Caller& caller = found->second;
    const auto& outputs = caller.options->grad_outputs;
    for (std::size_t i = 0; i < caller.roots.size(); ++i) {
      roots.push_back({caller.roots[i], outputs.empty() ? at::Tensor() : outputs[i]});
    }
    options.inputs = caller.options->inputs;
  }
  const auto sends = share.sends(plan.sends);
  if (sends.size() != plan.sends.size()) {
    return Failure{Code::pass_failed,
                   "a message of this context is asked about that was never sent",
                   {},
                   share.id()};
  }
  return run.executor.plan(roots, sends, std::move(options));
}

Status CutAutograd::feed(Share& share, PassRun& run) {
  for (auto& [pair, gradients] : std::exchange(run.arrived, {})) {
    if (run.create_graph && run.executor.expects(pair)) {
      const Recording received(share.segments, run.path, run.executor.place(pair));
      Reader crossing(gradients.crossing);
      const bool cut = crossing.get<bool>();
      Status entered = cut ? share.receive(gradients.from, gradients.tensors, crossing) : Status();
      if (!entered.ok()) return entered;
    }
    if (Status fed = run.executor.feed(pair, std::move(gradients.tensors)); !fed.ok()) return fed;
  }
  return {};
}

// With `create_graph` gradients leave like the tensors of a call: their graph is cut.
Status CutAutograd::send_gradients(Share& share, PassId pass, PassRun& run) {
  for (auto& out : run.executor.take_outbox()) {
    Grad grad{pass, out.pair, {}, {}};
    if (run.create_graph) {
      const c10::AutoGradMode recorded(true);
      const Recording sent(share.segments, run.path, out.place);
      Writer crossing(grad.crossing);
      share.send(out.pair.owner(), out.gradients, crossing);
    }
    Message message{MessageKind::grad, {}, {}};
    Writer writer(grad.tensors);
    Status packed =
        rpc::pack_tensors(std::move(out.gradients), writer, message.payloads, world_.net);
    if (!packed.ok()) return packed;
    encode(grad, message.header);
    agent_->post(out.pair.owner(), Lane::data, std::move(message));
  }
  return {};
}

// The merged values are computed before the report, so that commit only swaps and cannot fail.
void CutAutograd::finish(Share& share, PassId pass, PassRun& run) {
  share.segments.freeze();
  const c10::AutoGradMode recorded(run.create_graph);
  try {
    const Recording sums(share.segments, run.path, run.executor.nodes() + 1);
    run.merged = share.gradients.merged(std::move(run.executor.staged()), &share.segments);
  } catch (const std::exception& error) {
    return perform(
        share, share.core.threw(pass, "the sum with earlier gradients",
                                {Code::pass_failed, error.what(), world_.self.name, share.id()}));
  }
  world_.events.append({EventKind::pass_done, pass.initiator, subject(share.id()), pass.counter});
  perform(share, share.core.executed(pass));
}

std::vector<GradientMap::Entry> CutAutograd::gradients(ContextId context) {
  require(context);
  const Time deadline = after(world_.clock.now(), world_.limits.verdict);
  while (require(context).core.undecided()) {
    require(context).undecided_waiters.push_back(world_.tasks.current());
    const Wake wake =
        world_.tasks.park(deadline, {"the verdict of a pass", worker_name(creator_of(context))});
    if (wake == Wake::unparked) continue;
    world_.events.append({EventKind::deadline_fired, creator_of(context), 0, 0});
    throw Error({Code::timed_out,
                 "get_gradients: a pass was not decided before the deadline",
                 {},
                 context});
  }
  Share& share = require(context);
  const rpc::PlaceScope nowhere(places_, rpc::Place{});
  share.segments.freeze();
  auto entries = share.gradients.in_order(&share.segments);
  world_.events.append(
      {EventKind::gradients_read, creator_of(context), subject(context), entries.size()});
  return entries;
}

}  // namespace rehearse::autograd
