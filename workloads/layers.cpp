#include "workloads/layers.hpp"

#include <cmath>
#include <string>

#include "runtime/base/random.hpp"
#include "workloads/tensor.hpp"

namespace rehearse::workloads {

at::Tensor uniform(std::uint64_t seed, std::string_view name, std::vector<std::int64_t> sizes,
                   double bound, at::ScalarType dtype) {
  Random random = Random(seed).split(name);
  at::Tensor values = at::empty(sizes, at::kDouble);
  double* value = values.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < values.numel(); ++i) value[i] = bound * (2 * random.unit() - 1);
  return values.to(dtype);
}

at::Tensor Layer::operator()(const at::Tensor& x) const {
  const at::Tensor sum = at::addmm(bias, x, weight);
  return last ? sum : sum.tanh();
}

void Layer::step(const std::vector<at::Tensor>& gradients, double rate) {
  at::NoGradGuard no_grad;
  if (gradients[0].defined()) weight.sub_(gradients[0], rate);
  if (gradients[1].defined()) bias.sub_(gradients[1], rate);
}

Layer make_layer(std::uint64_t seed, std::int64_t index, std::int64_t in, std::int64_t out,
                 bool last) {
  const std::string name = "layer" + std::to_string(index);
  const double bound = 1.0 / std::sqrt(static_cast<double>(in));
  return {uniform(seed, name + ".weight", {in, out}, bound).set_requires_grad(true),
          uniform(seed, name + ".bias", {out}, bound).set_requires_grad(true), last};
}

Layer make_model_layer(std::uint64_t seed, std::int64_t index, std::int64_t layers,
                       std::int64_t hidden) {
  const bool last = index == layers - 1;
  return make_layer(seed, index, index == 0 ? kInputs : hidden, last ? 1 : hidden, last);
}

Batch make_batch(std::uint64_t seed, std::int64_t step, std::int64_t part, std::int64_t size) {
  const std::string name = "batch" + std::to_string(step) + "." + std::to_string(part);
  const at::Tensor inputs = uniform(seed, name, {size, kInputs}, 1.0);
  // A smooth function that a small model can learn.
  return {inputs, inputs.sum(1, /*keepdim=*/true).sin()};
}

at::Tensor mean_squared_error(const at::Tensor& predicted, const at::Tensor& target) {
  return (predicted - target).square().mean();
}

}  // namespace rehearse::workloads
