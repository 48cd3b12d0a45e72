#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "runtime/base/result.hpp"
#include "runtime/base/time.hpp"

namespace rehearse {

// The algorithms are torch's own (torch::optim), with its defaults; see there for the formulas.

struct Sgd {
  double learning_rate = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;  ///< needs momentum > 0 and dampening 0
};
struct Adam {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;  ///< added to the gradient
  bool amsgrad = false;
};
struct AdamW {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 1e-2;  ///< of the parameter itself (Loshchilov, Hutter 2019)
  bool amsgrad = false;
};
struct Adagrad {
  double learning_rate = 1e-2;
  double learning_rate_decay = 0;
  double weight_decay = 0;
  double initial_accumulator = 0;
  double epsilon = 1e-10;
};
struct RmsProp {
  double learning_rate = 1e-2;
  double smoothing = 0.99;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
};
using Algorithm = std::variant<Sgd, Adam, AdamW, Adagrad, RmsProp>;
/// "Sgd", "AdamW", …
std::string_view name(const Algorithm& algorithm);

/// times `factor` every `every_steps` steps.
struct StepDecay {
  std::int64_t every_steps = 1;
  double factor = 0.1;
};
/// times `factor` every step.
struct ExponentialDecay {
  double factor = 0.99;
};
/// Half a cosine down to `least` within `steps` steps; from then on `least`.
struct CosineDecay {
  std::int64_t steps = 1;
  double least = 0;  ///< a learning rate
};

/// How the learning rate changes from step to step: a linear warm-up, then a decay that counts from
/// the warm-up's end. Computed by the trainer and sent with each step, so all owners use one value.
struct Schedule {
  std::int64_t warmup_steps = 0;
  double warmup_start = 1.0 / 3;  ///< of the learning rate, at step 0
  std::variant<std::monostate, StepDecay, ExponentialDecay, CosineDecay> decay;
};

struct OptimizerOptions {
  Algorithm algorithm = Sgd{};
  Schedule schedule{};
  /// Gradients of a step whose norm, over all owners, is greater are scaled down to it. Costs one
  /// more round trip.
  std::optional<double> clip_gradient_norm{};
  Duration deadline{};  ///< of a step; zero: `Limits::call`
};

namespace training {

/// Fails with `bad_argument`, naming the option, what it is and what was expected.
Status check(const OptimizerOptions& options);

/// Of step `step`, counted from 0.
double learning_rate(const OptimizerOptions& options, std::int64_t step);

}  // namespace training
}  // namespace rehearse
