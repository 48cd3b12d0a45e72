#include "tests/autograd/pass_network.hpp"

#include <algorithm>

#include "runtime/base/check.hpp"

namespace rehearse::autograd {
namespace {

std::string text(const PassId& pass) {
  return worker_name(pass.initiator) + "/" + std::to_string(pass.counter);
}

Time at(int step) { return Time(Duration(step)); }
constexpr int kDeadlineSteps = 1'000'000;

}  // namespace

PassNetwork::PassNetwork(const MessageGraph& graph, NetworkOptions options, std::uint64_t seed)
    : graph_(graph), options_(std::move(options)), random_(seed) {
  const ContextId context = make_context(options_.creator, 0, 1);
  for (WorkerId worker = 0; worker < graph.workers(); ++worker) {
    workers_.push_back(Worker{.core = PassCore(context, worker, options_.bounds)});
  }
}

PassId PassNetwork::ask(WorkerId initiator, std::vector<PairId> roots) {
  const PassId pass = workers_[initiator].core.new_pass();
  roots_[pass] = std::move(roots);
  perform(initiator, workers_[initiator].core.ask_turn(pass));
  return pass;
}

void PassNetwork::run() {
  while (true) {
    inject();
    if (!(options_.in_rounds ? step_in_rounds() : step())) return;
    ++step_;
  }
}

void PassNetwork::inject() {
  for (const Injection& injection : options_.injections) {
    if (injection.step != step_ || !workers_[injection.worker].alive) continue;
    Worker& worker = workers_[injection.worker];
    if (injection.kind == Injection::Kind::kill) kill(injection.worker);
    if (injection.kind == Injection::Kind::node_throws) throw_next_ = true;
    if (injection.kind == Injection::Kind::deadline) expire_all();
    if (injection.kind == Injection::Kind::close && workers_[options_.creator].alive) {
      perform(options_.creator, workers_[options_.creator].core.close());
      perform(options_.creator, CloseContext{{Code::context_closed, "closed by the test", {}, 0}});
    }
    if (injection.kind == Injection::Kind::cancel) {
      for (const auto& [pass, roots] : roots_) {
        if (pass.initiator != injection.worker || ended_.contains(pass)) continue;
        const bool was_begun = std::count(begun_.begin(), begun_.end(), pass) != 0;
        if (!was_begun) cancelled_.insert(pass);
        std::erase(worker.to_begin, pass);
        perform(injection.worker, worker.core.cancel(pass));
        break;
      }
    }
  }
}

void PassNetwork::kill(WorkerId victim) {
  note("kill " + worker_name(victim));
  workers_[victim].alive = false;
  workers_[victim].executions.clear();
  workers_[victim].core = PassCore(workers_[victim].core.context(), victim);
  for (auto& [channel, packets] : channels_) {
    if (channel.to == victim) packets.clear();
    if (channel.from == victim) packets.resize(random_.below(packets.size() + 1));
  }
  for (WorkerId peer = 0; peer < workers_.size(); ++peer) {
    if (workers_[peer].alive) losses_.insert({victim, peer});
  }
}

void PassNetwork::expire_all() {
  note("deadline");
  for (WorkerId worker = 0; worker < workers_.size(); ++worker) {
    if (!workers_[worker].alive) continue;
    perform(worker, workers_[worker].core.expire(at(2 * kDeadlineSteps)));
  }
}

// One of everything that can happen now.
bool PassNetwork::step() {
  std::vector<std::pair<int, Channel>> choices;  // 0 deliver, 1 tell a loss, 2 work, 3 begin
  for (const auto& [channel, packets] : channels_) {
    if (!packets.empty()) choices.push_back({0, channel});
  }
  for (const auto& [lost, peer] : losses_) {
    bool drained = true;
    for (const Lane lane : {Lane::control, Lane::data}) {
      drained = drained && channels_[{lost, peer, lane}].empty();
    }
    if (drained && workers_[peer].alive) choices.push_back({1, {lost, peer, Lane::control}});
  }
  for (WorkerId worker = 0; worker < workers_.size(); ++worker) {
    if (!workers_[worker].alive) continue;
    if (has_work(worker)) choices.push_back({2, {worker, worker, Lane::control}});
    if (!workers_[worker].to_begin.empty()) choices.push_back({3, {worker, worker, Lane::control}});
  }
  if (choices.empty()) return false;
  const auto [what, channel] = choices[random_.below(choices.size())];
  if (what == 0) deliver(channel);
  if (what == 1) {
    losses_.erase({channel.from, channel.to});
    note(worker_name(channel.to) + " hears of the loss of " + worker_name(channel.from));
    perform(channel.to, workers_[channel.to].core.peer_lost(channel.from));
  }
  if (what == 2) work(channel.to);
  if (what == 3) begin(channel.to);
  return true;
}

bool PassNetwork::step_in_rounds() {
  for (WorkerId worker = 0; worker < workers_.size(); ++worker) {
    if (!workers_[worker].to_begin.empty()) return begin(worker), true;
    if (has_work(worker)) return work(worker), true;
  }
  for (auto& [channel, packets] : channels_) {
    if (!packets.empty() && packets.front().round == round_) return deliver(channel), true;
  }
  for (const auto& [channel, packets] : channels_) {
    if (!packets.empty()) return ++round_, true;
  }
  return false;
}

void PassNetwork::push(const Channel& channel, Packet packet) {
  ++sent_[packet.kind];
  packet.round = round_ + 1;
  if (workers_[channel.to].alive) channels_[channel].push_back(std::move(packet));
}

void PassNetwork::deliver(const Channel& channel) {
  auto& packets = channels_[channel];
  const Packet packet = std::move(packets.front());
  packets.pop_front();
  Worker& worker = workers_[channel.to];
  worker.heard = true;
  note(worker_name(channel.from) + " -> " + worker_name(channel.to) + " " +
       std::string(name(packet.kind)));
  if (const auto* grad = std::get_if<GradMessage>(&packet.body)) {
    return perform(channel.to, worker.core.receive_gradients(channel.from, grad->pass, grad->pair,
                                                             GradHandle(gradient_)));
  }
  const Result<PassMessage> message = decode_any(packet.kind, std::get<Bytes>(packet.body));
  if (!message.ok()) return complain(message.failure().message);
  perform(channel.to, worker.core.receive(channel.from, message.value(), at(step_)));
}

void PassNetwork::perform(WorkerId worker, const Actions& actions) {
  note_doubt(worker, actions);
  for (const Action& action : actions) {
    std::visit([&](const auto& each) { perform(worker, each); }, action);
  }
}

// Whoever closes the context in doubt names the lost initiator of the pass that it drops.
void PassNetwork::note_doubt(WorkerId worker, const Actions& actions) {
  if (actions.empty()) return;
  const auto* close = std::get_if<CloseContext>(&actions.back());
  if (!close || close->failure.code != Code::pass_failed) return;
  for (const auto& [pass, execution] : workers_[worker].executions) {
    if (close->failure.worker == worker_name(pass.initiator)) unknown_.insert(pass);
  }
}

void PassNetwork::perform(WorkerId worker, const Send& send) {
  Packet packet{kind_of(send.message), Bytes(), 0};
  encode_any(send.message, std::get<Bytes>(packet.body));
  push({worker, send.to, Lane::control}, std::move(packet));
  // A planted bug: the report is taken for the verdict.
  const auto* done = std::get_if<Done>(&send.message);
  if (options_.commits_at_report && done) committed_[done->pass].insert(worker);
}

void PassNetwork::perform(WorkerId worker, const Plan& plan) {
  note(worker_name(worker) + " plans " + text(plan.pass));
  if (!workers_[worker].executions.emplace(plan.pass, Execution{plan, {}, {}, false}).second) {
    complain("planned twice");
  }
  if (workers_[worker].executions.size() > 1) complain("two plans at once");
}

void PassNetwork::perform(WorkerId worker, const Feed& feed) {
  const auto execution = workers_[worker].executions.find(feed.pass);
  if (execution == workers_[worker].executions.end()) return complain("fed without a plan");
  if (!execution->second.fed.insert(feed.pair).second) complain("fed twice");
}

void PassNetwork::perform(WorkerId worker, const CommitPass& commit) {
  note(worker_name(worker) + " commits " + text(commit.pass));
  const auto execution = workers_[worker].executions.find(commit.pass);
  if (execution == workers_[worker].executions.end()) return complain("commit without a plan");
  if (!execution->second.said_executed) complain("commit before all was run");
  workers_[worker].executions.erase(execution);
  workers_[worker].committed.push_back(commit.pass);
  committed_[commit.pass].insert(worker);
}

void PassNetwork::perform(WorkerId worker, const DropPass& drop) {
  note(worker_name(worker) + " drops " + text(drop.pass));
  if (workers_[worker].executions.erase(drop.pass) == 0) complain("drop without a plan");
}

void PassNetwork::perform(WorkerId, const Finished& finished) {
  note(text(finished.pass) + " finished: " + std::string(name(finished.status.code())));
  if (cancelled_.contains(finished.pass)) complain("a cancelled pass finished");
  if (!ended_.emplace(finished.pass, Ended{finished.status, round_}).second) {
    complain("finished twice: " + text(finished.pass));
  }
}

void PassNetwork::perform(WorkerId worker, const TurnGranted& granted) {
  workers_[worker].to_begin.push_back(granted.pass);
}

void PassNetwork::perform(WorkerId worker, const CloseContext& close) {
  note(worker_name(worker) + " closes the context: " + close.failure.message);
  workers_[worker].to_begin.clear();
  if (worker != options_.creator) return;
  for (WorkerId peer = 0; peer < workers_.size(); ++peer) {
    if (peer == worker) continue;
    perform(worker, Send{peer, Close{workers_[worker].core.context(), close.failure.code,
                                     close.failure.message}});
  }
}

void PassNetwork::begin(WorkerId worker) {
  const PassId pass = workers_[worker].to_begin.front();
  workers_[worker].to_begin.erase(workers_[worker].to_begin.begin());
  note(worker_name(worker) + " begins " + text(pass));
  const auto live = graph_.live(roots_.at(pass));
  begun_.push_back(pass);
  takes_part_[pass].insert(worker);
  for (const auto& [participant, sends] : live) takes_part_[pass].insert(participant);
  perform(worker, workers_[worker].core.begin(pass, live, options_.options, at(step_),
                                              at(step_ + kDeadlineSteps)));
}

// A recv node runs once the roots, and all live sends of this worker that reach it, have been fed.
std::vector<PairId> PassNetwork::ready(WorkerId, const Execution& execution) const {
  std::set<PairId> reached, blocked;
  if (execution.plan.initiator) {
    const auto& roots = roots_.at(execution.plan.pass);
    reached.insert(roots.begin(), roots.end());
  }
  for (const PairId send : execution.plan.sends) {
    const auto& behind = graph_.at(send).behind;
    (execution.fed.contains(send) ? reached : blocked).insert(behind.begin(), behind.end());
  }
  std::vector<PairId> pairs;
  for (const PairId pair : reached) {
    if (!blocked.contains(pair) && !execution.emitted.contains(pair)) pairs.push_back(pair);
  }
  return pairs;
}

bool PassNetwork::has_work(WorkerId worker) const {
  for (const auto& [pass, execution] : workers_[worker].executions) {
    if (execution.said_executed) continue;
    if (!ready(worker, execution).empty()) return true;
    if (execution.fed.size() == execution.plan.sends.size()) return true;
  }
  return false;
}

void PassNetwork::work(WorkerId worker) {
  for (auto& [pass, execution] : workers_[worker].executions) {
    if (!execution.said_executed) return work_on(worker, execution);
  }
}

void PassNetwork::work_on(WorkerId worker, Execution& execution) {
  const PassId pass = execution.plan.pass;
  if (throw_next_) {
    throw_next_ = false;
    thrown_ = "in node " + std::to_string(step_);
    note(worker_name(worker) + " throws");
    return perform(worker, workers_[worker].core.threw(pass, thrown_.substr(3),
                                                       {Code::remote_exception, "planted", {}, 0}));
  }
  const std::vector<PairId> pairs = ready(worker, execution);
  if (pairs.empty()) {
    execution.said_executed = true;
    return perform(worker, workers_[worker].core.executed(pass));
  }
  for (const PairId pair : pairs) {
    execution.emitted.insert(pair);
    push({worker, pair.owner(), Lane::data}, {MessageKind::grad, GradMessage{pass, pair}, 0});
    if (!options_.in_rounds) return;
  }
}

bool PassNetwork::any_closed() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) { return worker.alive && worker.core.closed(); });
}

int PassNetwork::messages(MessageKind kind) const {
  const auto count = sent_.find(kind);
  return count == sent_.end() ? 0 : count->second;
}

void PassNetwork::note(std::string what) {
  digest_.add(what);
  log_.push_back(std::to_string(step_) + " " + std::move(what));
}

std::string PassNetwork::violation() const {
  if (!complaints_.empty()) return complaints_.front();
  for (WorkerId worker = 0; worker < workers_.size(); ++worker) {
    if (!workers_[worker].alive) continue;
    const PassCore& core = workers_[worker].core;
    const std::string who = worker_name(worker);
    if (core.live_passes() != 0) return who + " still has a pass open";
    if (core.stashed() != 0) return who + " still keeps what came early";
    if (core.undecided()) return who + " is undecided";
    if (core.next_deadline() != kNever) return who + " still has a deadline";
    if (core.closed() != any_closed()) return "the context is closed at some only";
    if (const std::string order = check_order(workers_[worker]); !order.empty()) return order;
  }
  for (const auto& [pass, roots] : roots_) {
    if (const std::string wrong = check_pass(pass); !wrong.empty()) return wrong;
  }
  return gradient_.use_count() == 1 ? "" : "gradients leaked";
}

std::string PassNetwork::check_pass(const PassId& pass) const {
  const bool finished = ended_.contains(pass);
  const bool ok = finished && ended_.at(pass).status.ok();
  if (workers_[pass.initiator].alive && !finished && !cancelled_.contains(pass)) {
    return text(pass) + " hangs";
  }
  if (unknown_.contains(pass)) {
    for (const Worker& worker : workers_) {
      const auto& taken = worker.committed;
      if (worker.alive && std::find(taken.begin(), taken.end(), pass) != taken.end()) {
        return text(pass) + " is committed at one survivor and unknown to another";
      }
    }
  }
  if (any_closed() || !takes_part_.contains(pass)) return "";
  std::size_t took_part = 0, took_over = 0;
  for (const WorkerId worker : takes_part_.at(pass)) {
    if (!workers_[worker].alive) continue;
    ++took_part;
    if (committed_.contains(pass) && committed_.at(pass).contains(worker)) ++took_over;
  }
  if (took_over != 0 && took_over != took_part) return text(pass) + " is committed at some only";
  if (ok && took_over != took_part) return text(pass) + " returned, but is not committed";
  if (finished && !ok && took_over != 0) return text(pass) + " threw, but is committed";
  return "";
}

std::string PassNetwork::check_order(const Worker& worker) const {
  auto turn = begun_.begin();
  for (const PassId& pass : worker.committed) {
    turn = std::find(turn, begun_.end(), pass);
    if (turn == begun_.end()) return text(pass) + " is committed out of order";
  }
  return "";
}

}  // namespace rehearse::autograd
