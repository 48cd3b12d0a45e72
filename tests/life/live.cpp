#include "tests/life/live.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <optional>

#include "rehearse/optimizer.hpp"
#include "rehearse/rehearse.hpp"
#include "tests/life/model.hpp"
#include "tests/programs/small_job.hpp"

namespace rehearse::life {
namespace {

using namespace std::chrono_literals;
using programs::leaf_of;
using programs::outcome_of;
using programs::SmallJob;

struct LifeJob : SmallJob {
  Function<RemoteRef<Tensor>()> parameter = program.function(
      "parameter", [](Worker& worker) { return worker.remote_ref(leaf_of(worker)); });
  Function<Tensor(RemoteRef<Tensor>)> use = program.function(
      "use", [](Worker& worker, RemoteRef<Tensor> ref) { return ref.to_here() * leaf_of(worker); });
  Function<double()> leaf = program.function(
      "leaf", [](Worker& worker) { return leaf_of(worker).select(0, 0).item<double>(); });
};

/// Rank 0, living a script. What it holds goes in step with what the model knows.
class Life {
 public:
  Life(const LifeJob& job, Worker& worker, Model& model)
      : job_(job), worker_(worker), model_(model) {}

  /// Before the first line.
  void make_optimizer(std::int64_t step) {
    at_ = "optimizer";
    worker_.step(step);
    const std::string outcome = outcome_of([&] {
      std::vector<RemoteRef<Tensor>> parameters;
      for (int rank = 0; rank < kWorkers; ++rank)
        parameters.push_back(worker_.rpc().call(rank, job_.parameter));
      OptimizerOptions options;
      options.algorithm = Sgd{.learning_rate = 1};
      optimizer_.emplace(worker_, options, std::move(parameters));
    });
    agrees(outcome, {0, 1, 2});
  }

  void live(const Line& line, std::string at) {
    at_ = std::move(at);
    const int worker = static_cast<int>(line.b) % kWorkers;
    switch (line.verb) {
      case Verb::open:
        return open();
      case Verb::close:
        return close();
      case Verb::leaf:
        return keep(leaf_of(worker_), model_.leaf());
      case Verb::call:
        return call(line.a, worker);
      case Verb::nested:
        return nested(line.a, worker);
      case Verb::async:
        return async(line.a, worker);
      case Verb::wait:
        return wait(line.a);
      case Verb::remote:
        return remote(line.a, worker);
      case Verb::fetch:
        return fetch(line.a);
      case Verb::use:
        return use(line.a, worker);
      case Verb::drop:
        return drop(line.a);
      case Verb::backward:
        return backward(line.a);
      case Verb::read:
        return read(worker);
      case Verb::step:
        return step();
    }
  }

  /// After the last line.
  void close() {
    at_ += " close";
    const std::vector<Future<Tensor>> late = pending_;
    if (context_) context_.reset();
    model_.close();
    forget_graph();
    // Who waits for a call of a context that is closed gets its value or is told so.
    for (const auto& future : late) {
      const std::string outcome = outcome_of([&] { future.wait(); });
      if (outcome == "ok" || outcome.starts_with("context_closed")) continue;
      agrees(outcome, {0, 1, 2});
    }
  }

 private:
  void open() {
    if (context_) return;
    // What was recorded without it, or in another one, does not belong to it.
    model_.forget_graph();
    forget_graph();
    context_.emplace(worker_);
    model_.open = true;
  }

  void call(std::uint32_t a, int worker) {
    const auto at = pick(model_.tensors, a);
    if (!at) return;
    const Known known = model_.times(model_.tensors[*at], worker, {});
    if (!known.small()) return;
    Tensor result;
    const std::string outcome =
        outcome_of([&] { result = worker_.rpc().call(worker, job_.times, tensors_[*at]); });
    if (agrees(outcome, {worker})) keep(result, known);
  }

  void nested(std::uint32_t a, int by) {
    const auto at = pick(model_.tensors, a);
    if (!at) return;
    const int worker = (by + 1) % kWorkers;
    const Known known = model_.times(model_.tensors[*at], worker, {by});
    if (!known.small()) return;
    Tensor result;
    const std::string outcome =
        outcome_of([&] { result = worker_.rpc().call(by, job_.pass_on, tensors_[*at], 1); });
    if (agrees(outcome, {by, worker})) keep(result, known);
  }

  void async(std::uint32_t a, int worker) {
    const auto at = pick(model_.tensors, a);
    if (!at) return;
    const Known known = model_.times(model_.tensors[*at], worker, {});
    if (!known.small()) return;
    const std::string outcome = outcome_of([&] {
      pending_.push_back(worker_.rpc().async(worker, job_.times, tensors_[*at]));
      model_.pending.push_back({worker, known});
    });
    if (outcome != "ok") agrees(outcome, {worker});
  }

  void wait(std::uint32_t a) {
    const auto at = pick(model_.pending, a);
    if (!at) return;
    const Elsewhere call = model_.pending[*at];
    Tensor result;
    const std::string outcome = outcome_of([&] { result = pending_[*at].wait(); });
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(*at));
    model_.pending.erase(model_.pending.begin() + static_cast<std::ptrdiff_t>(*at));
    // It may have come before its worker died.
    if (outcome == "ok" || agrees(outcome, {call.worker})) keep(result, call.value);
  }

  void remote(std::uint32_t a, int worker) {
    const auto at = pick(model_.tensors, a);
    if (!at || !context_) return;
    const Known known = model_.times(model_.tensors[*at], worker, {});
    if (!known.small()) return;
    const std::string outcome = outcome_of([&] {
      refs_.push_back(worker_.rpc().remote(worker, job_.times, tensors_[*at]));
      model_.refs.push_back({worker, known});
    });
    if (outcome != "ok") agrees(outcome, {worker});
  }

  void fetch(std::uint32_t a) {
    const auto at = pick(model_.refs, a);
    if (!at) return;
    Tensor result;
    const std::string outcome = outcome_of([&] { result = refs_[*at].to_here(); });
    if (agrees(outcome, {model_.refs[*at].worker})) keep(result, model_.refs[*at].value);
  }

  void use(std::uint32_t a, int worker) {
    const auto at = pick(model_.refs, a);
    if (!at) return;
    const Elsewhere& ref = model_.refs[*at];
    const Known known = model_.times(ref.value, worker, {});
    if (!known.small()) return;
    Tensor result;
    const std::string outcome =
        outcome_of([&] { result = worker_.rpc().call(worker, job_.use, refs_[*at]); });
    if (agrees(outcome, {worker, ref.worker})) keep(result, known);
  }

  void drop(std::uint32_t a) {
    const auto at = pick(model_.refs, a);
    if (!at) return;
    refs_.erase(refs_.begin() + static_cast<std::ptrdiff_t>(*at));
    model_.refs.erase(model_.refs.begin() + static_cast<std::ptrdiff_t>(*at));
  }

  void backward(std::uint32_t a) {
    const auto at = pick(model_.tensors, a);
    if (!at || !context_) return;
    const Known& root = model_.tensors[*at];
    dist_autograd::BackwardOptions options;
    options.retain_graph = true;
    const std::string outcome =
        outcome_of([&] { context_->backward(tensors_[*at].sum(), options); });
    if (!root.requires_grad()) {
      if (!outcome.starts_with("bad_argument")) differs(outcome, "bad_argument");
    } else if (agrees(outcome, root.workers)) {
      model_.backward(root);
    }
  }

  void read(int worker) {
    std::string held;
    const std::string outcome = outcome_of([&] {
      if (context_) {
        const auto value = worker_.rpc().call(worker, job_.gradient, context_->id());
        held = value ? fmt::format("{}", *value) : "none";
      }
      held += fmt::format(" {}", worker_.rpc().call(worker, job_.leaf));
    });
    // A worker that the context has not reached does not know it, and has no gradient.
    const bool unknown =
        outcome.starts_with("unknown_context") && !model_.gradients.contains(worker);
    if (unknown || !agrees(outcome, {worker})) return;
    std::string expected;
    if (context_) {
      const auto found = model_.gradients.find(worker);
      expected = found == model_.gradients.end() ? "none" : fmt::format("{}", found->second);
    }
    expected += fmt::format(" {}", model_.leaves[static_cast<std::size_t>(worker)]);
    if (held != expected) differs(held, expected);
  }

  void step() {
    if (!context_ || !optimizer_ || !model_.pending.empty() || !model_.step_stays_small()) return;
    const std::string outcome = outcome_of([&] { optimizer_->step(context_->id()); });
    if (!agrees(outcome, {0, 1, 2})) return;
    model_.step();
    forget_graph();
  }

  void keep(const Tensor& tensor, const Known& known) {
    if (const double value = tensor.select(0, 0).item<double>(); value != known.value)
      differs(fmt::format("{}", value), fmt::format("{}", known.value));
    tensors_.push_back(tensor);
    model_.tensors.push_back(known);
  }

  /// Whether it went well; tells if that is not what the model says.
  bool agrees(const std::string& outcome, const std::set<int>& workers) {
    if (outcome == "ok" && model_.expected(workers) == "ok") return true;
    const bool lost =
        model_.may_be_lost(workers) && outcome.starts_with(Model::lost(*model_.doomed));
    if (!lost && (outcome == "ok" || !outcome.starts_with(model_.expected(workers))))
      differs(outcome, model_.expected(workers));
    return false;
  }
  void differs(const std::string& got, const std::string& expected) {
    programs::say(worker_, fmt::format("{}: {}, expected {}", at_, got, expected));
  }

  template <class T>
  static std::optional<std::size_t> pick(const std::vector<T>& from, std::uint32_t number) {
    if (from.empty()) return std::nullopt;
    return number % from.size();
  }
  void forget_graph() {
    tensors_.clear();
    pending_.clear();
    refs_.clear();
  }

  const LifeJob& job_;
  Worker& worker_;
  Model& model_;
  std::string at_;
  std::optional<dist_autograd::Context> context_;
  std::optional<DistributedOptimizer> optimizer_;
  std::vector<Tensor> tensors_;
  std::vector<Future<Tensor>> pending_;
  std::vector<RemoteRef<Tensor>> refs_;
};

void live_through(const LifeJob& job, Worker& worker, const std::vector<Script>& scripts) {
  Model model;
  std::int64_t step = 0;
  for (std::size_t i = 0; i < scripts.size(); ++i) {
    const Script& script = scripts[i];
    if (script.death && !script.death->line) model.doomed = script.death->victim;
    Life life(job, worker, model);
    life.make_optimizer(step++);
    for (std::size_t at = 0; at < script.lines.size(); ++at) {
      const bool dies = script.death && script.death->line == at;
      if (dies) model.dead = script.death->victim;
      worker.step(step++);
      life.live(script.lines[at],
                fmt::format("script {}, line {} ({})", i, at, name(script.lines[at].verb)));
    }
    life.close();
  }
}

/// The step of rank 0 at which it happens.
FaultSpec fault_of(const Death& death, const std::vector<Script>& scripts) {
  if (!death.line) return programs::kill_at_event(death.victim, death.event, death.nth);
  std::size_t step = scripts.size() + *death.line;  // one step for each optimizer
  for (std::size_t i = 0; i + 1 < scripts.size(); ++i) step += scripts[i].lines.size();
  FaultSpec spec = programs::kill_at_phase(death.victim, static_cast<std::int64_t>(step), "");
  spec.when.rank = 0;
  return spec;
}

programs::JobSetup setup_of(const std::vector<Script>& scripts) {
  programs::JobSetup setup(kWorkers, scripts.front().seed);
  setup.limits.journal_gradients = false;
  if (scripts.back().death) setup.faults.push_back(fault_of(*scripts.back().death, scripts));
  if (scripts.front().weather == Weather::jitter) setup.faults.push_back(programs::jitter(300us));
  if (scripts.front().weather == Weather::reorder) setup.faults.push_back(programs::reorder(300us));
  return setup;
}

}  // namespace

std::string differences(programs::In world, const std::vector<Script>& scripts) {
  if (scripts.empty()) return {};
  LifeJob job;
  const RunOutcome outcome = job.run(world, setup_of(scripts),
                                     [&](Worker& worker) { live_through(job, worker, scripts); });
  std::set<int> dead;
  const auto& death = scripts.back().death;
  if (death && outcome.faults[0].fired > 0) dead.insert(death->victim);
  return fmt::format("{}{}", fmt::join(outcome.notes, "\n"), programs::complaints(outcome, dead));
}

}  // namespace rehearse::life
