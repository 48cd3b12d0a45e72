#include "runtime/worker/worker.hpp"

#include "runtime/autograd/journal.hpp"
#include "runtime/worker/dist_autograd.hpp"

namespace rehearse {

Worker::Worker(World& world, rpc::HandlerState& handlers, const JobSpec& job,
               autograd::Autograd& autograd)
    : world_(world),
      handlers_(handlers),
      places_(handlers.places()),
      job_(job),
      autograd_(autograd) {}

Worker::~Worker() = default;

void Worker::connect(std::unique_ptr<rpc::Calls> calls) {
  calls_ = std::move(calls);
  rpc_ = std::make_unique<Rpc>(*calls_);
}

void Worker::on_lost(int rank, std::function<void(const Failure&)> told) {
  calls_->when_lost(rank, std::move(told));
}

Rpc& Worker::rpc() {
  calls_->check_thread();
  return *rpc_;
}

Random Worker::random(std::string_view name) const {
  return Random(Hash64()
                    .add(world_.self.seed)
                    .add(static_cast<std::uint64_t>(world_.self.rank))
                    .value())
      .split(name);
}

void Worker::step(std::int64_t step) {
  step_ = step;
  contexts_in_step_ = 0;
  world_.events.step(step);
}

void Worker::report_final_parameters(const std::vector<at::Tensor>& parameters) {
  JournalEntry line;
  line.step = kFinalParameters;
  line.owner = static_cast<std::uint16_t>(rank());
  for (const auto& parameter : parameters) {
    autograd::write_journal(world_, line, parameter);
    ++line.leaf;
  }
}

autograd::ContextPlace Worker::next_context_place() { return {step_, contexts_in_step_++}; }

dist_autograd::Context* Worker::current_context() {
  const ContextId context = places_.current().context;
  if (context == 0) return nullptr;
  if (const auto opened = open_contexts_.find(context); opened != open_contexts_.end())
    return opened->second;
  std::erase_if(views_, [this](const auto& view) { return !autograd_.knows(view.first); });
  auto& view = views_[context];
  if (!view) view.reset(new dist_autograd::Context(*this, context));
  return view.get();
}

}  // namespace rehearse
