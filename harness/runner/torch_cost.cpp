#include "harness/runner/torch_cost.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <string_view>
#include <utility>

namespace rehearse::harness {
namespace {

// Of this thread: torch's callbacks are plain functions.
struct Counter {
  Cost cost;
  int depth = 0;                      // operations that call others are counted once
  std::int64_t flops_per_output = 1;  // of the outermost one: its inputs are gone when it ends
};
// tidy: mutable-static: a RecordFunction callback has no other place to keep a sum
thread_local Counter counter_;

template <class Visit>
void for_each_tensor(const auto& values, const Visit& visit) {
  for (const c10::IValue& value : values) {
    if (value.isTensor() && value.toTensor().defined()) visit(value.toTensor());
    if (!value.isTensorList()) continue;
    for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  }
}

// Operands of a product of matrices: which input is the left one.
int left_operand(std::string_view name) {
  if (name == "aten::mm" || name == "aten::bmm" || name == "aten::matmul" || name == "aten::linear")
    return 0;
  if (name == "aten::addmm" || name == "aten::baddbmm") return 1;
  return -1;
}

std::int64_t flops_per_output(const at::RecordFunction& function) {
  const std::string_view name = function.name();
  const auto inputs = function.inputs();
  if (const int left = left_operand(name); left >= 0) {
    const at::Tensor& matrix = inputs[static_cast<std::size_t>(left)].toTensor();
    return matrix.dim() == 0 ? 1 : 2 * matrix.size(-1);
  }
  if (name.find("conv") != std::string_view::npos && inputs.size() > 1 && inputs[1].isTensor()) {
    const at::Tensor& weight = inputs[1].toTensor();
    if (weight.defined() && weight.dim() > 0 && weight.size(0) > 0)
      return 2 * weight.numel() / weight.size(0);
  }
  return 1;
}

std::int64_t size_bytes(const at::Tensor& tensor) {
  return tensor.numel() * static_cast<std::int64_t>(tensor.element_size());
}

std::unique_ptr<at::ObserverContext> entered(const at::RecordFunction& function) {
  if (counter_.depth++ > 0) return nullptr;
  counter_.flops_per_output = flops_per_output(function);
  for_each_tensor(function.inputs(),
                  [](const at::Tensor& tensor) { counter_.cost.bytes += size_bytes(tensor); });
  return nullptr;
}

void left(const at::RecordFunction& function, at::ObserverContext*) {
  if (--counter_.depth > 0) return;
  for_each_tensor(function.outputs(), [](const at::Tensor& tensor) {
    counter_.cost.flops += tensor.numel() * counter_.flops_per_output;
    counter_.cost.bytes += size_bytes(tensor);
  });
}

}  // namespace

TorchCost::TorchCost()
    : callback_(at::addGlobalCallback(at::RecordFunctionCallback(&entered, &left)
                                          .needsInputs(true)
                                          .needsOutputs(true)
                                          .scopes({at::RecordScope::FUNCTION}))) {}

TorchCost::~TorchCost() { at::removeCallback(callback_); }

Cost TorchCost::take() { return std::exchange(counter_.cost, {}); }

}  // namespace rehearse::harness
