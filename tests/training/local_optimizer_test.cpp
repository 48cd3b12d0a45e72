// Torch's optimizers with a step that can be taken back, beside torch's optimizers.

#include "runtime/training/local_optimizer.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/api/include/torch/optim/adagrad.h>
#include <torch/csrc/api/include/torch/optim/adam.h>
#include <torch/csrc/api/include/torch/optim/adamw.h>
#include <torch/csrc/api/include/torch/optim/rmsprop.h>
#include <torch/csrc/api/include/torch/optim/sgd.h>

namespace rehearse::training {
namespace {

using Tensors = std::vector<at::Tensor>;

/// A step of the plain optimizer: gradients through `.grad`, as a user of torch does it.
class Plain {
 public:
  Plain(const Algorithm& algorithm, Tensors parameters) : parameters_(std::move(parameters)) {
    optimizer_ = std::visit([&](const auto& from) { return make(from); }, algorithm);
  }
  void step(const Tensors& gradients) {
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      parameters_[i].mutable_grad() = gradients[i];
    optimizer_->step();
  }

 private:
  using Pointer = std::unique_ptr<torch::optim::Optimizer>;
  Pointer make(const Sgd& from) {
    return std::make_unique<torch::optim::SGD>(
        parameters_, torch::optim::SGDOptions(from.learning_rate).momentum(from.momentum));
  }
  Pointer make(const Adam& from) {
    return std::make_unique<torch::optim::Adam>(
        parameters_, torch::optim::AdamOptions(from.learning_rate).amsgrad(from.amsgrad));
  }
  Pointer make(const AdamW& from) {
    return std::make_unique<torch::optim::AdamW>(parameters_,
                                                 torch::optim::AdamWOptions(from.learning_rate));
  }
  Pointer make(const Adagrad& from) {
    return std::make_unique<torch::optim::Adagrad>(
        parameters_, torch::optim::AdagradOptions(from.learning_rate));
  }
  Pointer make(const RmsProp& from) {
    return std::make_unique<torch::optim::RMSprop>(parameters_,
                                                   torch::optim::RMSpropOptions(from.learning_rate)
                                                       .momentum(from.momentum)
                                                       .centered(from.centered));
  }

  Tensors parameters_;
  Pointer optimizer_;
};

const std::vector<Algorithm> kAlgorithms = {
    Sgd{.learning_rate = 0.1, .momentum = 0.9}, Adam{.learning_rate = 0.1, .amsgrad = true},
    AdamW{.learning_rate = 0.1}, Adagrad{.learning_rate = 0.1},
    RmsProp{.learning_rate = 0.1, .momentum = 0.5, .centered = true}};

at::Tensor filled(double value) { return at::full({2, 3}, value, at::kDouble); }
Tensors fresh_parameters() {
  return {filled(1).set_requires_grad(true), filled(2).t().set_requires_grad(true)};
}
Tensors gradients_of(int step) {
  return {filled(0.25 * step + 0.1), step % 2 ? at::Tensor() : filled(-0.5 * step).t()};
}

bool same(const Tensors& one, const Tensors& other) {
  for (std::size_t i = 0; i < one.size(); ++i)
    if (!at::equal(one[i], other[i])) return false;
  return true;
}
Tensors values_of(const Tensors& parameters) {
  Tensors values;
  for (const auto& parameter : parameters) values.push_back(parameter.detach().clone());
  return values;
}

class EachAlgorithm : public testing::TestWithParam<Algorithm> {};
INSTANTIATE_TEST_SUITE_P(LocalOptimizer, EachAlgorithm, testing::ValuesIn(kAlgorithms),
                         [](const auto& of) { return std::string(name(of.param)); });

// Six steps, in some of which a parameter has no gradient: the bits are those of the plain one.
TEST_P(EachAlgorithm, TakesTheStepsOfTorchsOwn) {
  const Tensors ours = fresh_parameters(), plain = fresh_parameters();
  LocalOptimizer optimizer(GetParam(), ours);
  Plain reference(GetParam(), plain);
  for (int step = 0; step < 6; ++step) {
    optimizer.stage(gradients_of(step), 0.1, 1);
    optimizer.commit();
    reference.step(gradients_of(step));
    EXPECT_TRUE(same(ours, plain)) << step;
  }
}

// Before every step another one is staged and dropped, which must leave no trace in the state; the
// parameters have their old values until the commit.
TEST_P(EachAlgorithm, ForgetsAStepThatIsDropped) {
  const Tensors ours = fresh_parameters(), plain = fresh_parameters();
  LocalOptimizer optimizer(GetParam(), ours);
  Plain reference(GetParam(), plain);
  for (int step = 0; step < 4; ++step) {
    const Tensors before = values_of(ours);
    optimizer.stage({filled(7), filled(8).t()}, 0.3, 1);
    EXPECT_TRUE(same(ours, before));
    optimizer.drop();
    EXPECT_TRUE(same(ours, before));
    optimizer.stage(gradients_of(step), 0.1, 1);
    EXPECT_TRUE(same(ours, before));
    optimizer.commit();
    reference.step(gradients_of(step));
    EXPECT_TRUE(same(ours, plain)) << step;
  }
}

// A gradient of the first step is not there in the second: nothing moves, momentum or not.
TEST_P(EachAlgorithm, LeavesParametersWithoutAGradientAlone) {
  const Tensors ours = fresh_parameters();
  LocalOptimizer optimizer(GetParam(), ours);
  optimizer.stage({filled(1), filled(1).t()}, 0.1, 1);
  optimizer.commit();
  const Tensors before = values_of(ours);
  optimizer.stage({filled(1), {}}, 0.1, 1);
  optimizer.commit();
  EXPECT_FALSE(at::equal(ours[0], before[0]));
  EXPECT_TRUE(at::equal(ours[1], before[1]));
  EXPECT_FALSE(ours[0].grad().defined());
}

// The second parameter's gradient is sparse, which Adam refuses after it has stepped the first.
TEST(LocalOptimizer, HasNothingStagedAfterAStepThatThrew) {
  const Tensors ours = fresh_parameters(), plain = fresh_parameters();
  LocalOptimizer optimizer(Adam{.learning_rate = 0.1}, ours);
  Plain reference(Adam{.learning_rate = 0.1}, plain);
  const at::Tensor sparse = at::sparse_coo_tensor(at::full({1, 1}, 0, at::kLong),
                                                  at::full({1, 2}, 1.0, at::kDouble), {3, 2});
  const Tensors before = values_of(ours);
  EXPECT_THROW(optimizer.stage({filled(1), sparse}, 0.1, 1), std::exception);
  EXPECT_TRUE(same(ours, before));
  optimizer.stage(gradients_of(2), 0.1, 1);
  optimizer.commit();
  reference.step(gradients_of(2));
  EXPECT_TRUE(same(ours, plain));
}

TEST(LocalOptimizer, WritesIntoMemoryThatOthersShare) {
  const at::Tensor whole = at::full({4}, 1.0, at::kDouble);
  const at::Tensor part = whole.narrow(0, 1, 2).detach().set_requires_grad(true);
  LocalOptimizer optimizer(Sgd{.learning_rate = 1}, {part});
  optimizer.stage({at::full({2}, 3.0, at::kDouble)}, 1, 0.5);
  EXPECT_EQ(whole[1].item<double>(), 1);
  optimizer.commit();
  EXPECT_EQ(whole[0].item<double>(), 1);
  EXPECT_EQ(whole[1].item<double>(), -0.5);
}

// A graph that saved the parameter before the step does not silently use the new values.
TEST(LocalOptimizer, IsNoticedByGraphsThatSavedTheParameter) {
  const at::Tensor weight = filled(2).set_requires_grad(true);
  LocalOptimizer optimizer(Sgd{.learning_rate = 1}, {weight});
  const at::Tensor loss = (weight * weight).sum();
  optimizer.stage({filled(1)}, 1, 1);
  optimizer.drop();
  (weight * weight).sum().backward();  // a step that is dropped modifies nothing
  optimizer.stage({filled(1)}, 1, 1);
  optimizer.commit();
  EXPECT_THROW(loss.backward(), std::exception);
}

TEST(LocalOptimizer, RefusesWhatIsNoParameter) {
  const auto complaint = [](Tensors parameters) -> std::string {
    try {
      LocalOptimizer optimizer(Sgd{}, std::move(parameters));
      return "";
    } catch (const Error& error) {
      return error.message();
    }
  };
  const at::Tensor leaf = filled(1).set_requires_grad(true);
  EXPECT_EQ(complaint({leaf}), "");
  EXPECT_EQ(complaint({leaf, leaf}), "parameter 1 of an optimizer is there twice");
  EXPECT_EQ(complaint({filled(1)}),
            "parameter 0 of an optimizer is no leaf that requires a gradient");
  EXPECT_EQ(complaint({leaf * 2}),
            "parameter 0 of an optimizer is no leaf that requires a gradient");
  EXPECT_EQ(complaint({at::Tensor()}), "parameter 0 of an optimizer is undefined");
}

TEST(SquaredNorm, SumsInDoubleAlsoOfSparseGradients) {
  EXPECT_DOUBLE_EQ(squared_norm(at::full({2, 2}, 3.0, at::kFloat)), 36);
  const at::Tensor sparse =
      at::sparse_coo_tensor(at::full({1, 2}, 0, at::kLong), at::full({2}, 2.0, at::kFloat), {3});
  EXPECT_DOUBLE_EQ(squared_norm(sparse), 16);  // both entries are at one place
}

}  // namespace
}  // namespace rehearse::training
