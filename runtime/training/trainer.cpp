#include "runtime/training/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <utility>

namespace rehearse::training {
namespace {

struct TrainerSlot {
  std::shared_ptr<Trainer> trainer;
};

std::vector<WorkerId> owners_of(const Trainer::Optimizers& optimizers) {
  std::vector<WorkerId> owners;
  for (const auto& [owner, optimizer] : optimizers) owners.push_back(owner);
  return owners;
}

}  // namespace

/// One step, over all its attempts. Brings `TrainerCore` calls and a task that waits.
class StepRun : public std::enable_shared_from_this<StepRun> {
 public:
  StepRun(Trainer& trainer, const Trainer::Optimizers& optimizers, StepOrder order,
          const CallOptions& options)
      : trainer_(trainer),
        optimizers_(optimizers),
        order_(std::move(order)),
        deadline_(trainer.deadline_of(options)),
        core_(age(), owners_of(optimizers)),
        number_(trainer.next_run_++) {
    trainer_.runs_.emplace(number_, this);
  }
  ~StepRun() { trainer_.runs_.erase(number_); }
  StepRun(const StepRun&) = delete;
  StepRun& operator=(const StepRun&) = delete;

  void run() {
    task_ = tasks().current();
    begin();
    while (!over_) {
      if (happened_.empty()) {
        // Every call has its deadline, so this ends.
        tasks().park(kNever, {"the owners of the parameters", missing()});
        continue;
      }
      const auto event = std::move(happened_.front());
      happened_.pop_front();
      event();
    }
    if (failure_) throw Error(*failure_);
  }

  // What happens is looked at by the task of the step: it may wait, those who tell of it may not.
  void give_up(StepId step) {
    happened([this, step] { perform(core_.wounded(step)); });
  }

  void lost(WorkerId worker, const std::string& why) {
    if (!optimizers_.contains(worker)) return;
    const std::string name = worker_name(worker);
    const Failure failure{Code::peer_lost, fmt::format("{} is lost: {}", name, why), name,
                          order_.context};
    happened([this, worker, failure] { perform(core_.failed(worker, core_.attempt(), failure)); });
  }

 private:
  void happened(std::function<void()> event) {
    happened_.push_back(std::move(event));
    tasks().unpark(task_);
  }

  Tasks& tasks() { return trainer_.worker_.world().tasks; }

  StepAge age() {
    const auto self = static_cast<WorkerId>(trainer_.worker_.rank());
    return {++trainer_.newest_turn_, order_.context, self, trainer_.next_run_};
  }

  std::string missing() const {
    std::string names;
    for (const WorkerId owner : core_.missing())
      names += (names.empty() ? "" : ", ") + worker_name(owner);
    return names;
  }

  void begin() {
    const auto self = static_cast<WorkerId>(trainer_.worker_.rank());
    const StepId attempt{self, trainer_.attempts_.begin()};
    perform(core_.begin(attempt, trainer_.attempts_.settled_below()));
  }

  void perform(const TrainerActions& actions) {
    for (const auto& action : actions)
      std::visit([this](const auto& one) { perform(one); }, action);
  }

  void perform(const SendPrepare& prepare) {
    const StepId step = prepare.ticket.id;
    order_.ticket = prepare.ticket;
    order_.optimizer = optimizers_.at(prepare.owner);
    const auto reply = trainer_.worker_.rpc().async(time_left(), prepare.owner,
                                                    trainer_.functions_.prepare, order_);
    reply.on_complete(
        [weak = weak_from_this(), owner = prepare.owner, step](const Result<PrepareReply>& result) {
          const auto self = weak.lock();
          if (self)
            self->happened(
                [self = self.get(), owner, step, result] { self->on_reply(owner, step, result); });
        });
  }

  // All attempts together have the step's deadline.
  CallOptions time_left() const {
    const Time now = trainer_.worker_.clock().now();
    CallOptions options;
    options.deadline =
        deadline_ == kNever ? Duration::max() : std::max(deadline_ - now, Duration(1));
    return options;
  }

  void on_reply(WorkerId owner, StepId step, const Result<PrepareReply>& reply) {
    if (!reply.ok()) return perform(core_.failed(owner, step, failure_at(owner, reply.failure())));
    trainer_.newest_turn_ = std::max(trainer_.newest_turn_, reply.value().newest_turn);
    perform(reply.value().prepared ? core_.prepared(owner, step) : core_.given_up(owner, step));
  }

  Failure failure_at(WorkerId owner, Failure failure) const {
    if (failure.worker.empty()) failure.worker = worker_name(owner);
    failure.context = order_.context;
    return failure;
  }

  void perform(const Decided& decided) {
    trainer_.attempts_.decided(decided.step.attempt, decided.owners);
    const bool commits = decided.verdict == StepVerdict::committed;
    log(commits ? EventKind::step_prepared : EventKind::step_aborted);
  }

  // Outlives this run: what owners may forget depends on it.
  void perform(const SendVerdict& send) {
    CallOptions options;
    options.deadline = trainer_.worker_.world().limits.verdict;
    const auto done = trainer_.worker_.rpc().async(options, send.owner, trainer_.functions_.settle,
                                                   send.step, send.verdict);
    done.on_complete([weak = weak_from_this(), trainer = trainer_.weak_from_this(),
                      owner = send.owner, step = send.step](const auto& result) {
      if (const auto known = trainer.lock(); known && result.code() != Code::timed_out)
        known->attempts_.settled(step.attempt);
      const auto self = weak.lock();
      if (self)
        self->happened(
            [self = self.get(), owner, step] { self->perform(self->core_.settled(owner, step)); });
    });
  }

  void perform(const Retry&) { begin(); }

  void perform(const FinishStep& finish) {
    if (!finish.failure) log(EventKind::step_committed);
    failure_ = finish.failure;
    over_ = true;
  }

  void log(EventKind kind) {
    trainer_.worker_.world().events.append(
        {kind, order_.ticket.id.trainer, static_cast<std::uint64_t>(order_.context), 0});
  }

  Trainer& trainer_;
  const Trainer::Optimizers& optimizers_;
  StepOrder order_;
  Time deadline_;
  TrainerCore core_;
  std::uint64_t number_;
  TaskId task_;
  std::deque<std::function<void()>> happened_;
  bool over_ = false;
  std::optional<Failure> failure_;
};

Trainer& Trainer::of(Worker& worker) {
  auto& slot = worker.local<TrainerSlot>();
  if (slot.trainer) return *slot.trainer;
  slot.trainer = std::make_shared<Trainer>(worker);
  worker.calls().on_lost(
      [weak = slot.trainer->weak_from_this()](WorkerId lost, const std::string& why) {
        const auto trainer = weak.lock();
        if (!trainer) return;
        for (const auto& [number, run] : trainer->runs_) run->lost(lost, why);
      });
  return *slot.trainer;
}

Time Trainer::deadline_of(const CallOptions& options) const {
  World& world = worker_.world();
  return after(world.clock.now(),
               options.deadline > Duration{} ? options.deadline : world.limits.call);
}

void Trainer::step(const Optimizers& optimizers, StepOrder order, const CallOptions& options) {
  const auto run = std::make_shared<StepRun>(*this, optimizers, std::move(order), options);
  run->run();
}

void Trainer::give_up(StepId step) {
  for (const auto& [number, run] : runs_) run->give_up(step);
}

}  // namespace rehearse::training
