#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

/// What the workloads compute with: dense layers whose values depend on a seed and a name alone, so
/// that every world, and plain single-process code, starts from the same bits.
namespace rehearse::workloads {

/// Uniform in [-bound, bound), shape `sizes`, from the stream named `name` of `seed`.
at::Tensor uniform(std::uint64_t seed, std::string_view name, std::vector<std::int64_t> sizes,
                   double bound, at::ScalarType dtype = at::kFloat);

/// y = tanh(x W + b), or without tanh for the last layer of a model.
struct Layer {
  at::Tensor weight;  ///< in x out, requires grad
  at::Tensor bias;    ///< out, requires grad
  bool last = false;

  at::Tensor operator()(const at::Tensor& x) const;
  /// parameter -= rate · gradient, in place, for gradients that are defined: {weight, bias}.
  void step(const std::vector<at::Tensor>& gradients, double rate);
  std::vector<at::Tensor> parameters() const { return {weight, bias}; }
};

Layer make_layer(std::uint64_t seed, std::int64_t index, std::int64_t in, std::int64_t out,
                 bool last);

/// Layer `index` of a model that takes `kInputs` features, has `layers` layers of `hidden` units
/// and gives one number.
inline constexpr std::int64_t kInputs = 10;
Layer make_model_layer(std::uint64_t seed, std::int64_t index, std::int64_t layers,
                       std::int64_t hidden);

/// A regression problem: `inputs` (batch x kInputs) and `targets` (batch x 1) of one step and part.
struct Batch {
  at::Tensor inputs;
  at::Tensor targets;
};
Batch make_batch(std::uint64_t seed, std::int64_t step, std::int64_t part, std::int64_t size);

/// Mean of squared errors: a scalar.
at::Tensor mean_squared_error(const at::Tensor& predicted, const at::Tensor& target);

}  // namespace rehearse::workloads
