#include "runtime/training/local_optimizer.hpp"

#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/view_as_real.h>
#include <fmt/format.h>
#include <torch/csrc/api/include/torch/optim/adagrad.h>
#include <torch/csrc/api/include/torch/optim/adam.h>
#include <torch/csrc/api/include/torch/optim/adamw.h>
#include <torch/csrc/api/include/torch/optim/rmsprop.h>
#include <torch/csrc/api/include/torch/optim/sgd.h>

#include <functional>
#include <set>
#include <utility>

#include "runtime/base/check.hpp"

namespace rehearse::training {
namespace {

namespace optim = torch::optim;
using Visit = std::function<void(at::Tensor&)>;

// --- torch's name for each algorithm, and what its state holds

void each_tensor(optim::SGDParamState& state, const Visit& visit) {
  visit(state.momentum_buffer());
}
template <class State>
requires(std::is_same_v<State, optim::AdamParamState> ||
         std::is_same_v<State, optim::AdamWParamState>) void each_tensor(State& state,
                                                                         const Visit& visit) {
  visit(state.exp_avg());
  visit(state.exp_avg_sq());
  visit(state.max_exp_avg_sq());
}
void each_tensor(optim::AdagradParamState& state, const Visit& visit) { visit(state.sum()); }
void each_tensor(optim::RMSpropParamState& state, const Visit& visit) {
  visit(state.square_avg());
  visit(state.momentum_buffer());
  visit(state.grad_avg());
}

/// A torch optimizer, and how to give a copy of a parameter's state tensors of its own.
struct Made {
  std::unique_ptr<optim::Optimizer> optimizer;
  std::function<void(optim::OptimizerParamState&)> separate;
};

template <class Optimizer, class State, class Options>
Made make_torch(const std::vector<at::Tensor>& parameters, const Options& options) {
  return {std::make_unique<Optimizer>(parameters, options), [](optim::OptimizerParamState& state) {
            each_tensor(static_cast<State&>(state), [](at::Tensor& tensor) {
              if (tensor.defined()) tensor = tensor.clone();
            });
          }};
}

Made make(const Sgd& from, const std::vector<at::Tensor>& parameters) {
  return make_torch<optim::SGD, optim::SGDParamState>(parameters,
                                                      optim::SGDOptions(from.learning_rate)
                                                          .momentum(from.momentum)
                                                          .dampening(from.dampening)
                                                          .weight_decay(from.weight_decay)
                                                          .nesterov(from.nesterov));
}

template <class Options, class From>
Options with_betas(const From& from) {
  return Options(from.learning_rate)
      .betas({from.beta1, from.beta2})
      .eps(from.epsilon)
      .weight_decay(from.weight_decay)
      .amsgrad(from.amsgrad);
}
Made make(const Adam& from, const std::vector<at::Tensor>& parameters) {
  return make_torch<optim::Adam, optim::AdamParamState>(parameters,
                                                        with_betas<optim::AdamOptions>(from));
}
Made make(const AdamW& from, const std::vector<at::Tensor>& parameters) {
  return make_torch<optim::AdamW, optim::AdamWParamState>(parameters,
                                                          with_betas<optim::AdamWOptions>(from));
}

Made make(const Adagrad& from, const std::vector<at::Tensor>& parameters) {
  return make_torch<optim::Adagrad, optim::AdagradParamState>(
      parameters, optim::AdagradOptions(from.learning_rate)
                      .lr_decay(from.learning_rate_decay)
                      .weight_decay(from.weight_decay)
                      .initial_accumulator_value(from.initial_accumulator)
                      .eps(from.epsilon));
}

Made make(const RmsProp& from, const std::vector<at::Tensor>& parameters) {
  return make_torch<optim::RMSprop, optim::RMSpropParamState>(
      parameters, optim::RMSpropOptions(from.learning_rate)
                      .alpha(from.smoothing)
                      .eps(from.epsilon)
                      .weight_decay(from.weight_decay)
                      .momentum(from.momentum)
                      .centered(from.centered));
}

void check_parameters(const std::vector<at::Tensor>& parameters) {
  std::set<const void*> seen;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& parameter = parameters[i];
    const char* wrong = nullptr;
    if (!parameter.defined()) {
      wrong = "undefined";
    } else if (!parameter.requires_grad() || !parameter.is_leaf()) {
      wrong = "no leaf that requires a gradient";
    } else if (parameter.layout() != at::kStrided) {
      wrong = "not dense";
    } else if (!seen.insert(parameter.unsafeGetTensorImpl()).second) {
      wrong = "there twice";
    }
    if (wrong)
      throw Error(Code::bad_argument, fmt::format("parameter {} of an optimizer is {}", i, wrong));
  }
}

}  // namespace

// Torch's optimizer works on shadows of the parameters. Outside of a step a shadow shares the
// parameter's memory; while a step is staged it has memory of its own. Its identity stays: torch's
// state is kept by it.
class LocalOptimizer::Impl {
 public:
  Impl(const Algorithm& algorithm, std::vector<at::Tensor> parameters)
      : parameters_(std::move(parameters)) {
    check_parameters(parameters_);
    for (const auto& parameter : parameters_) shadows_.push_back(parameter.variable_data());
    made_ = std::visit([&](const auto& from) { return make(from, shadows_); }, algorithm);
  }

  const std::vector<at::Tensor>& parameters() const { return parameters_; }

  void stage(const std::vector<at::Tensor>& gradients, double learning_rate, double scale) {
    REHEARSE_CHECK(staged_.empty(), "an optimizer step is staged already");
    const at::NoGradGuard no_grad;
    try {
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        if (gradients[i].defined()) set_aside(i, scale == 1 ? gradients[i] : gradients[i] * scale);
      }
      made_.optimizer->defaults().set_lr(learning_rate);
      for (auto& group : made_.optimizer->param_groups()) group.options().set_lr(learning_rate);
      made_.optimizer->step();
    } catch (...) {
      drop();
      throw;
    }
  }

  void commit() noexcept {
    const at::NoGradGuard no_grad;
    for (auto& [index, before] : staged_) parameters_[index].copy_(shadows_[index]);
    rejoin();
  }

  void drop() {
    auto& states = made_.optimizer->state();
    for (auto& [index, before] : staged_) {
      void* key = shadows_[index].unsafeGetTensorImpl();
      if (before) {
        states[key] = std::move(before);
      } else {
        states.erase(key);
      }
    }
    rejoin();
  }

 private:
  struct Staged {
    std::size_t index = 0;
    std::unique_ptr<optim::OptimizerParamState> state;  ///< as before the step; null: none yet
  };

  void set_aside(std::size_t index, at::Tensor gradient) {
    at::Tensor& shadow = shadows_[index];
    Staged staged{index, nullptr};
    auto& states = made_.optimizer->state();
    if (const auto found = states.find(shadow.unsafeGetTensorImpl()); found != states.end()) {
      auto copy = found->second->clone();
      made_.separate(*copy);
      staged.state = std::exchange(found->second, std::move(copy));
    }
    staged_.push_back(std::move(staged));
    shadow.set_data(parameters_[index].variable_data().clone());
    shadow.mutable_grad() = std::move(gradient);
  }

  void rejoin() {
    for (const auto& staged : staged_) {
      at::Tensor& shadow = shadows_[staged.index];
      shadow.mutable_grad() = at::Tensor();
      shadow.set_data(parameters_[staged.index].variable_data());
    }
    staged_.clear();
  }

  std::vector<at::Tensor> parameters_, shadows_;
  Made made_;
  std::vector<Staged> staged_;
};

LocalOptimizer::LocalOptimizer(const Algorithm& algorithm, std::vector<at::Tensor> parameters)
    : impl_(std::make_unique<Impl>(algorithm, std::move(parameters))) {}
LocalOptimizer::~LocalOptimizer() = default;

const std::vector<at::Tensor>& LocalOptimizer::parameters() const { return impl_->parameters(); }
void LocalOptimizer::stage(const std::vector<at::Tensor>& gradients, double learning_rate,
                           double scale) {
  impl_->stage(gradients, learning_rate, scale);
}
void LocalOptimizer::commit() noexcept { impl_->commit(); }
void LocalOptimizer::drop() { impl_->drop(); }

double squared_norm(const at::Tensor& gradient) {
  const at::NoGradGuard no_grad;
  at::Tensor values = gradient.layout() == at::kSparse ? gradient.coalesce().values() : gradient;
  if (values.is_complex()) values = at::view_as_real(values);
  const double norm =
      at::linalg_vector_norm(values, 2, {}, /*keepdim=*/false, at::kDouble).item<double>();
  return norm * norm;
}

}  // namespace rehearse::training
