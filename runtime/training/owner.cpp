#include "runtime/training/owner.hpp"

#include <fmt/format.h>

#include "runtime/worker/dist_autograd.hpp"

namespace rehearse::training {
namespace {

struct OwnerSlot {
  std::shared_ptr<Owner> owner;
};

}  // namespace

Owner::Owner(Worker& worker) : worker_(worker), core_(static_cast<WorkerId>(worker.rank())) {}

Owner& Owner::of(Worker& worker) {
  auto& slot = worker.local<OwnerSlot>();
  if (slot.owner) return *slot.owner;
  slot.owner = std::make_shared<Owner>(worker);
  worker.calls().on_lost([weak = slot.owner->weak_from_this()](WorkerId lost, const std::string&) {
    if (const auto owner = weak.lock()) owner->lose(lost);
  });
  return *slot.owner;
}

// In a task: what the lost worker asked for before is in tasks that are ready already.
void Owner::lose(WorkerId lost) {
  later("steps of a lost worker", [this, lost] { perform(core_.lost(lost)); });
}

void Owner::later(std::string what, std::function<void()> body) {
  worker_.world().tasks.spawn(std::move(what), Duty::background,
                              [keep = shared_from_this(), body = std::move(body)] { body(); });
}

Created Owner::create(const Algorithm& algorithm,
                      const std::vector<RemoteRef<at::Tensor>>& parameters) {
  std::vector<at::Tensor> values;
  for (const auto& parameter : parameters) values.push_back(parameter.local_value());
  OwnedOptimizer owned{std::make_shared<LocalOptimizer>(algorithm, std::move(values))};
  std::erase_if(optimizers_, [](const auto& entry) { return entry.second.expired(); });
  optimizers_[next_optimizer_] = owned.optimizer;
  return {worker_.remote_ref(std::move(owned)), next_optimizer_++};
}

std::shared_ptr<LocalOptimizer> Owner::optimizer(std::uint64_t number) {
  const auto found = optimizers_.find(number);
  auto optimizer = found == optimizers_.end() ? nullptr : found->second.lock();
  if (!optimizer) throw Error(Code::bad_argument, "the optimizer is gone: its trainer dropped it");
  return optimizer;
}

// A worker that the context never reached has no gradients in it.
std::vector<at::Tensor> Owner::gradients(const LocalOptimizer& optimizer, ContextId context) {
  try {
    return dist_autograd::get_gradients(worker_, context, optimizer.parameters());
  } catch (const Error& error) {
    if (error.code() != Code::unknown_context) throw;
    return std::vector<at::Tensor>(optimizer.parameters().size());
  }
}

std::vector<double> Owner::squared_norms(std::uint64_t number, ContextId context) {
  std::vector<double> norms;
  for (const auto& gradient : gradients(*optimizer(number), context))
    norms.push_back(gradient.defined() ? squared_norm(gradient) : 0);
  return norms;
}

// --- a step

PrepareReply Owner::prepare(const StepOrder& order) {
  const StepId step = order.ticket.id;
  worker_.phase("optimizer");
  auto optimizer = this->optimizer(order.optimizer);
  Attempt& attempt = attempts_[step];
  attempt.optimizer = std::move(optimizer);
  attempt.context = order.context;
  attempt.task = worker_.world().tasks.current();
  perform(core_.prepare(order.ticket));
  wait_for_lock(attempt, step);
  if (attempt.granted) stage(attempt, order);
  const PrepareReply reply{!attempt.dismissed, core_.newest_turn()};
  if (attempt.dismissed) end(step, EventKind::step_aborted);
  return reply;
}

void Owner::wait_for_lock(Attempt& attempt, StepId step) {
  const Time deadline = worker_.places().current().deadline;
  while (!attempt.granted && !attempt.dismissed) {
    const Wake wake = worker_.world().tasks.park(
        deadline, {"the steps of older contexts", fmt::format("w{}", step.trainer)});
    if (wake == Wake::timed_out && !attempt.granted)
      perform(core_.decide(step, StepVerdict::aborted));
  }
}

void Owner::stage(Attempt& attempt, const StepOrder& order) {
  const StepId step = order.ticket.id;
  try {
    attempt.optimizer->stage(gradients(*attempt.optimizer, order.context), order.learning_rate,
                             order.scale);
    attempt.staged = true;
  } catch (const std::exception&) {
    perform(core_.failed(step));
    end(step, EventKind::step_aborted);
    throw;
  }
  perform(core_.prepared(step));
}

void Owner::settle(StepId step, StepVerdict verdict) { perform(core_.decide(step, verdict)); }

Future<StepVerdict> Owner::verdict(StepId step, const std::vector<WorkerId>& lost) {
  const std::uint64_t number = next_question_++;
  const auto promise = worker_.promise<StepVerdict>("the losses that another owner has seen");
  questions_.emplace(number, promise);
  perform(core_.asked(number, step, lost));
  return promise.future();
}

void Owner::end(StepId step, EventKind how) {
  const auto attempt = attempts_.extract(step);
  if (how == EventKind::step_committed) {
    attempt.mapped().optimizer->commit();
  } else if (attempt.mapped().staged) {  // else what is staged is another attempt's
    attempt.mapped().optimizer->drop();
  }
  worker_.world().events.append(
      {how, step.trainer, static_cast<std::uint64_t>(attempt.mapped().context), core_.committed()});
}

// --- what the core decides

void Owner::perform(const OwnerActions& actions) {
  for (const auto& action : actions) std::visit([this](const auto& one) { perform(one); }, action);
}

void Owner::perform(const Grant& grant) {
  Attempt& attempt = attempts_.at(grant.step);
  attempt.granted = true;
  worker_.world().tasks.unpark(attempt.task);
}

void Owner::perform(const Confirm& confirm) {
  Attempt& attempt = attempts_.at(confirm.step);
  attempt.answered = true;
  worker_.world().events.append({EventKind::step_prepared, confirm.step.trainer,
                                 static_cast<std::uint64_t>(attempt.context), 0});
}

void Owner::perform(const Dismiss& dismiss) {
  Attempt& attempt = attempts_.at(dismiss.step);
  attempt.dismissed = true;
  if (attempt.answered) return end(dismiss.step, EventKind::step_aborted);
  worker_.world().tasks.unpark(attempt.task);
}

void Owner::perform(const Apply& apply) { end(apply.step, EventKind::step_committed); }

void Owner::perform(const Wound& wound) {
  worker_.rpc().async(wound.step.trainer, functions_.give_up, wound.step);
}

// Asked again until it is answered: the other may learn late of the losses.
void Owner::ask(const AskVerdict& question) {
  const auto answer =
      worker_.rpc().async(question.owner, functions_.verdict, question.step, question.lost);
  answer.on_complete([weak = weak_from_this(), question](const Result<StepVerdict>& verdict) {
    const auto owner = weak.lock();
    if (!owner) return;
    owner->later("a step in doubt",
                 [owner = owner.get(), question, verdict] { owner->on_answer(question, verdict); });
  });
}

void Owner::on_answer(const AskVerdict& question, const Result<StepVerdict>& verdict) {
  if (verdict.ok()) {
    perform(core_.answered(question.owner, question.step, verdict.value(), question.lost));
  } else if (verdict.code() == Code::timed_out) {
    ask(question);
  }
}

void Owner::perform(const TellVerdict& answer) {
  const auto question = questions_.extract(answer.question);
  question.mapped().set(answer.verdict);
}

}  // namespace rehearse::training
