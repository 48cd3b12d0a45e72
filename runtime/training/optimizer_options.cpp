#include "runtime/training/optimizer_options.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numbers>

namespace rehearse {

std::string_view name(const Algorithm& algorithm) {
  constexpr std::array<std::string_view, std::variant_size_v<Algorithm>> kNames = {
      "Sgd", "Adam", "AdamW", "Adagrad", "RmsProp"};
  return kNames.at(algorithm.index());
}

namespace training {
namespace {

/// Keeps the first option that is wrong.
class Checker {
 public:
  explicit Checker(std::string_view of) : of_(of) {}

  void at_least_zero(std::string_view option, double value) {
    expect(std::isfinite(value) && value >= 0, option, value, "a number of at least 0");
  }
  void below_one(std::string_view option, double value) {
    expect(value >= 0 && value < 1, option, value, "at least 0 and below 1");
  }
  void positive(std::string_view option, double value) {
    expect(std::isfinite(value) && value > 0, option, value, "a number above 0");
  }
  template <class T>
  void expect(bool holds, std::string_view option, const T& value, std::string_view expected) {
    if (holds || !status_.ok()) return;
    status_ = Failure{Code::bad_argument,
                      fmt::format("{}: {} is {}, expected {}", of_, option, value, expected),
                      {},
                      0};
  }
  Status status() const { return status_; }

 private:
  std::string_view of_;
  Status status_;
};

template <class A>
void check_common(const A& options, Checker& check) {
  check.at_least_zero("learning_rate", options.learning_rate);
  check.at_least_zero("weight_decay", options.weight_decay);
}

void check_options(const Sgd& options, Checker& check) {
  check_common(options, check);
  check.at_least_zero("momentum", options.momentum);
  check.expect(std::isfinite(options.dampening), "dampening", options.dampening, "a number");
  check.expect(!options.nesterov || (options.momentum > 0 && options.dampening == 0), "nesterov",
               options.nesterov, "momentum above 0 and dampening 0 with it");
}

template <class A>
void check_betas(const A& options, Checker& check) {
  check_common(options, check);
  check.below_one("beta1", options.beta1);
  check.below_one("beta2", options.beta2);
  check.at_least_zero("epsilon", options.epsilon);
}
void check_options(const Adam& options, Checker& check) { check_betas(options, check); }
void check_options(const AdamW& options, Checker& check) { check_betas(options, check); }

void check_options(const Adagrad& options, Checker& check) {
  check_common(options, check);
  check.at_least_zero("learning_rate_decay", options.learning_rate_decay);
  check.at_least_zero("initial_accumulator", options.initial_accumulator);
  check.at_least_zero("epsilon", options.epsilon);
}

void check_options(const RmsProp& options, Checker& check) {
  check_common(options, check);
  check.at_least_zero("smoothing", options.smoothing);
  check.at_least_zero("epsilon", options.epsilon);
  check.at_least_zero("momentum", options.momentum);
}

void check_decay(std::monostate, Checker&) {}
void check_decay(const StepDecay& decay, Checker& check) {
  check.expect(decay.every_steps >= 1, "every_steps", decay.every_steps, "at least 1");
  check.positive("factor", decay.factor);
}
void check_decay(const ExponentialDecay& decay, Checker& check) {
  check.positive("factor", decay.factor);
}
void check_decay(const CosineDecay& decay, Checker& check) {
  check.expect(decay.steps >= 1, "steps", decay.steps, "at least 1");
  check.at_least_zero("least", decay.least);
}

Status check(const Schedule& schedule) {
  Checker check("schedule");
  check.expect(schedule.warmup_steps >= 0, "warmup_steps", schedule.warmup_steps, "at least 0");
  check.expect(schedule.warmup_start > 0 && schedule.warmup_start <= 1, "warmup_start",
               schedule.warmup_start, "above 0 and at most 1");
  std::visit([&](const auto& decay) { check_decay(decay, check); }, schedule.decay);
  return check.status();
}

double decayed(double rate, std::monostate, std::int64_t) { return rate; }
double decayed(double rate, const StepDecay& decay, std::int64_t step) {
  return rate * std::pow(decay.factor, static_cast<double>(step / decay.every_steps));
}
double decayed(double rate, const ExponentialDecay& decay, std::int64_t step) {
  return rate * std::pow(decay.factor, static_cast<double>(step));
}
double decayed(double rate, const CosineDecay& decay, std::int64_t step) {
  if (step >= decay.steps) return decay.least;
  const double part = static_cast<double>(step) / static_cast<double>(decay.steps);
  return decay.least + (rate - decay.least) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

}  // namespace

Status check(const OptimizerOptions& options) {
  Checker algorithm(name(options.algorithm));
  std::visit([&](const auto& of) { check_options(of, algorithm); }, options.algorithm);
  if (!algorithm.status().ok()) return algorithm.status();
  if (Status schedule = check(options.schedule); !schedule.ok()) return schedule;
  Checker rest("optimizer");
  if (options.clip_gradient_norm) rest.positive("clip_gradient_norm", *options.clip_gradient_norm);
  rest.expect(options.deadline >= Duration{}, "deadline", options.deadline.count(), "at least 0");
  return rest.status();
}

double learning_rate(const OptimizerOptions& options, std::int64_t step) {
  const double rate =
      std::visit([](const auto& of) { return of.learning_rate; }, options.algorithm);
  const Schedule& schedule = options.schedule;
  if (step < schedule.warmup_steps) {
    const double part = static_cast<double>(step) / static_cast<double>(schedule.warmup_steps);
    return rate * (schedule.warmup_start + (1 - schedule.warmup_start) * part);
  }
  return std::visit(
      [&](const auto& decay) { return decayed(rate, decay, step - schedule.warmup_steps); },
      schedule.decay);
}

}  // namespace training
}  // namespace rehearse
