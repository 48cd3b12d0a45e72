#include "runtime/training/distributed_optimizer.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "runtime/training/trainer.hpp"

namespace rehearse {
namespace {

CallOptions until(Duration deadline) {
  CallOptions options;
  options.deadline = deadline;
  return options;
}

// Its calls are no part of the program's: how many there are depends on who is in the way.
rpc::Place outside(Worker& worker) {
  rpc::Place place;
  place.deadline = worker.places().current().deadline;
  return place;
}

}  // namespace

DistributedOptimizer::DistributedOptimizer(Worker& worker, OptimizerOptions options,
                                           std::vector<RemoteRef<at::Tensor>> parameters)
    : worker_(worker), options_(std::move(options)), parameters_(parameters.size()) {
  training::check(options_).or_throw();
  if (parameters.empty())
    throw Error(Code::bad_argument, "an optimizer needs at least one parameter");
  const rpc::PlaceScope nowhere(worker_.places(), outside(worker_));
  std::map<training::WorkerId, std::vector<RemoteRef<at::Tensor>>> of_owner;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto owner = static_cast<training::WorkerId>(parameters[i].owner());
    of_owner[owner].push_back(std::move(parameters[i]));
    parts_[owner].places.push_back(i);
  }
  std::map<training::WorkerId, Future<training::Created>> created;
  for (const auto& [owner, of_it] : of_owner) {
    created.emplace(owner, worker_.rpc().async(until(options_.deadline), owner, functions_.create,
                                               options_.algorithm, of_it));
  }
  for (auto& [owner, part] : parts_) part.created = created.at(owner).wait();
}

void DistributedOptimizer::step(ContextId context) {
  const rpc::PlaceScope nowhere(worker_.places(), outside(worker_));
  worker_.phase("optimizer");
  if (!worker_.autograd().knows(context)) worker_.autograd().gradients(context);  // says why
  training::StepOrder order;
  order.context = context;
  order.learning_rate = learning_rate();
  if (options_.clip_gradient_norm) order.scale = clip(context);
  training::Trainer::of(worker_).step(optimizers(), order, until(options_.deadline));
  ++steps_;
}

std::map<training::WorkerId, std::uint64_t> DistributedOptimizer::optimizers() const {
  std::map<training::WorkerId, std::uint64_t> optimizers;
  for (const auto& [owner, part] : parts_) optimizers.emplace(owner, part.created.number);
  return optimizers;
}

// Summed in the order of the parameters, whoever owns them and answers first.
double DistributedOptimizer::clip(ContextId context) {
  std::map<training::WorkerId, Future<std::vector<double>>> answers;
  for (const auto& [owner, part] : parts_) {
    answers.emplace(owner,
                    worker_.rpc().async(until(options_.deadline), owner, functions_.squared_norms,
                                        part.created.number, context));
  }
  std::vector<double> squares(parameters_);
  for (const auto& [owner, part] : parts_) {
    const auto of_owner = answers.at(owner).wait();
    for (std::size_t i = 0; i < part.places.size(); ++i) squares[part.places[i]] = of_owner.at(i);
  }
  double sum = 0;
  for (const double square : squares) sum += square;
  gradient_norm_ = std::sqrt(sum);
  if (!std::isfinite(*gradient_norm_))
    throw Error(
        {Code::pass_failed,
         fmt::format("the norm of the gradients is {}: nothing is applied", *gradient_norm_),
         worker_.name(), context});
  constexpr double kTiny = 1e-6;  // as in torch's clip_grad_norm_
  return std::min(1.0, *options_.clip_gradient_norm / (*gradient_norm_ + kTiny));
}

}  // namespace rehearse
