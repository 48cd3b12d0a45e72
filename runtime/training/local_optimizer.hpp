#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "runtime/training/optimizer_options.hpp"

namespace rehearse::training {

/// One of torch's optimizers over parameters of this worker, whose step can be taken back until it
/// is committed. Between `stage` and `commit` or `drop` the parameters have their old values, and
/// memory holds, for each parameter with a gradient, one more copy of it and of its state (SGD
/// with momentum 1, Adam and AdamW 2, with amsgrad 3, Adagrad 1, RMSprop 1 to 3 times the
/// parameter).
class LocalOptimizer {
 public:
  /// Throws Error{bad_argument} for a parameter that is undefined, no leaf, requires no gradient,
  /// is not dense, or comes twice; c10::Error for options that torch refuses.
  LocalOptimizer(const Algorithm& algorithm, std::vector<at::Tensor> parameters);
  ~LocalOptimizer();
  LocalOptimizer(const LocalOptimizer&) = delete;
  LocalOptimizer& operator=(const LocalOptimizer&) = delete;

  const std::vector<at::Tensor>& parameters() const;

  /// Computes a step with `gradients` (aligned with the parameters; undefined: that parameter and
  /// its state stay as they are) times `scale`. Throws what torch throws; then nothing is staged.
  /// REQUIRES: nothing is staged.
  void stage(const std::vector<at::Tensor>& gradients, double learning_rate, double scale);
  /// Writes the new values into the parameters' own memory, so that all who share it see them.
  /// Allocates nothing and cannot fail. As with torch's own optimizers, a graph that was recorded
  /// before and saved the parameter notices at backward that it was modified.
  /// REQUIRES: a step is staged.
  void commit() noexcept;
  /// Parameters and state are as if the step had not been staged. No-op if nothing is.
  void drop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// The sum of the squares of the elements, in double. The same wherever it is computed.
double squared_norm(const at::Tensor& gradient);

}  // namespace rehearse::training
