// What an optimizer is told: options that are refused, and the learning rate of each step.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "runtime/training/optimizer_options.hpp"

namespace rehearse::training {
namespace {

std::string complaint(const OptimizerOptions& options) {
  const Status status = check(options);
  return status.ok() ? "" : std::string(name(status.code())) + " " + status.failure().message;
}
std::string complaint(Algorithm algorithm) {
  OptimizerOptions options;
  options.algorithm = algorithm;
  return complaint(options);
}

TEST(OptimizerOptions, AreFineByDefault) {
  for (const Algorithm& algorithm : {Algorithm(Sgd{}), Algorithm(Adam{}), Algorithm(AdamW{}),
                                     Algorithm(Adagrad{}), Algorithm(RmsProp{})}) {
    EXPECT_EQ(complaint(algorithm), "") << name(algorithm);
  }
}

// Each with one option out of its range: the complaint names the algorithm and the option.
TEST(OptimizerOptions, OutOfRangeAreRefusedByName) {
  const auto wrong = [](Algorithm algorithm, const std::string& start) {
    EXPECT_EQ(complaint(algorithm).substr(0, start.size()), start);
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  wrong(Sgd{.learning_rate = -1}, "bad_argument Sgd: learning_rate is -1, expected");
  wrong(Sgd{.learning_rate = nan}, "bad_argument Sgd: learning_rate is nan, expected");
  wrong(Sgd{.momentum = -0.5}, "bad_argument Sgd: momentum is -0.5, expected");
  wrong(Sgd{.nesterov = true}, "bad_argument Sgd: nesterov is true, expected momentum above 0");
  wrong(Sgd{.weight_decay = -1}, "bad_argument Sgd: weight_decay is -1, expected");
  wrong(Adam{.beta1 = 1}, "bad_argument Adam: beta1 is 1, expected at least 0 and below 1");
  wrong(AdamW{.beta2 = 1.5}, "bad_argument AdamW: beta2 is 1.5, expected");
  wrong(AdamW{.epsilon = -1}, "bad_argument AdamW: epsilon is -1, expected");
  wrong(Adagrad{.learning_rate_decay = -1}, "bad_argument Adagrad: learning_rate_decay is -1");
  wrong(Adagrad{.initial_accumulator = nan}, "bad_argument Adagrad: initial_accumulator is nan");
  wrong(RmsProp{.smoothing = -1}, "bad_argument RmsProp: smoothing is -1, expected");
}

TEST(OptimizerOptions, OfScheduleAndClippingAreCheckedToo) {
  OptimizerOptions options;
  options.clip_gradient_norm = 0;
  EXPECT_EQ(complaint(options),
            "bad_argument optimizer: clip_gradient_norm is 0, expected a number above 0");
  options = {};
  options.schedule.warmup_steps = -1;
  EXPECT_EQ(complaint(options), "bad_argument schedule: warmup_steps is -1, expected at least 0");
  options = {};
  options.schedule.decay = StepDecay{0, 0.5};
  EXPECT_EQ(complaint(options), "bad_argument schedule: every_steps is 0, expected at least 1");
  options.schedule.decay = CosineDecay{10, -1};
  EXPECT_EQ(complaint(options),
            "bad_argument schedule: least is -1, expected a number of at least 0");
}

OptimizerOptions at_rate_one() {
  OptimizerOptions options;
  options.algorithm = Sgd{.learning_rate = 1};
  return options;
}

TEST(LearningRate, IsConstantWithoutASchedule) {
  EXPECT_EQ(learning_rate(at_rate_one(), 0), 1);
  EXPECT_EQ(learning_rate(at_rate_one(), 1'000'000), 1);
}

TEST(LearningRate, DecaysInSteps) {
  OptimizerOptions options = at_rate_one();
  options.schedule.decay = StepDecay{3, 0.5};
  EXPECT_EQ(learning_rate(options, 2), 1);
  EXPECT_EQ(learning_rate(options, 3), 0.5);
  EXPECT_EQ(learning_rate(options, 6), 0.25);
}

TEST(LearningRate, DecaysExponentially) {
  OptimizerOptions options = at_rate_one();
  options.schedule.decay = ExponentialDecay{0.5};
  EXPECT_EQ(learning_rate(options, 3), 0.125);
}

TEST(LearningRate, FollowsHalfACosineAndStaysThere) {
  OptimizerOptions options = at_rate_one();
  options.schedule.decay = CosineDecay{4, 0.2};
  EXPECT_EQ(learning_rate(options, 0), 1);
  EXPECT_DOUBLE_EQ(learning_rate(options, 2), 0.6);
  EXPECT_DOUBLE_EQ(learning_rate(options, 1), 0.2 + 0.4 * (1 + std::sqrt(0.5)));
  EXPECT_EQ(learning_rate(options, 4), 0.2);
  EXPECT_EQ(learning_rate(options, 5), 0.2);
}

TEST(LearningRate, WarmsUpLinearlyBeforeTheDecayBegins) {
  OptimizerOptions options = at_rate_one();
  options.schedule.warmup_steps = 4;
  options.schedule.warmup_start = 0.5;
  options.schedule.decay = StepDecay{1, 0.5};
  EXPECT_EQ(learning_rate(options, 0), 0.5);
  EXPECT_EQ(learning_rate(options, 2), 0.75);
  EXPECT_EQ(learning_rate(options, 4), 1);
  EXPECT_EQ(learning_rate(options, 5), 0.5);
}

}  // namespace
}  // namespace rehearse::training
