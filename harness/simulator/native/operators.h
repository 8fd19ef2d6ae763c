// The record of what operators of torch did on the simulated device. Included once, by device.cpp:
// that compiles in half the time of two files.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <algorithm>
#include <string>
#include <vector>

#include "access.h"
#include "record.h"
#include "shadow.h"

namespace {

thread_local int unrecorded = 0;

void add_tensors(const c10::IValue& value, std::vector<at::Tensor>& tensors) {
  if (value.isTensor()) {
    if (value.toTensor().defined())
      tensors.push_back(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector())
      tensors.push_back(tensor);
  }
}

bool is_here(const at::Tensor& tensor) {
  return tensor.is_cuda() && tensor.numel();
}

bool is_of_kernels(const at::Tensor& tensor) {
  return is_here(tensor) && shadow_of(tensor).eq(SIM_BY_KERNEL).any().item<bool>();
}

// Products that are summed, of the operators that sum products; 0 for others.
uint64_t products(const std::string& name, const std::vector<at::Tensor>& in, const at::Tensor& out) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (in.size() < 2)
    return 0;
  if (has("conv")) {
    const auto& weight = in[1];
    const int64_t each = weight.dim() ? weight.numel() / std::max<int64_t>(weight.size(0), 1) : 1;
    return each * (has("transpose") ? in[0].numel() : out.numel());
  }
  if (has("mm") || has("mv") || has("dot") || has("linear")) {
    // A matrix to be added comes before the two that are multiplied.
    const auto& left = in[in.size() - 2];
    return left.dim() ? left.size(-1) * out.numel() : 0;
  }
  return 0;
}

// While one lives, nothing that this thread does is recorded: an operator is made of others.
class Unrecorded {
 public:
  Unrecorded() {
    ++unrecorded;
  }
  ~Unrecorded() {
    --unrecorded;
  }
  Unrecorded(const Unrecorded&) = delete;
  Unrecorded& operator=(const Unrecorded&) = delete;
};

// One call of an operator, from its arguments to its results.
class OperatorCall {
 public:
  OperatorCall(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

  // Records the call. What was made of something that a kernel has written counts as a kernel's.
  void finish(const torch::jit::Stack& stack) const;

 private:
  const c10::OperatorHandle& op_;
  std::vector<at::Tensor> arguments_;
  bool is_scaled_ = false;
  bool has_list_ = false;
  bool is_of_kernels_ = false;
};

OperatorCall::OperatorCall(const c10::OperatorHandle& op, const torch::jit::Stack& stack)
    : op_(op) {
  const auto& schema = op.schema().arguments();
  const auto values = torch::jit::last(stack, schema.size());
  for (size_t i = 0; i < schema.size(); ++i) {
    add_tensors(values[i], arguments_);
    has_list_ |= values[i].isTensorList();
    if (schema[i].name() == "alpha" && values[i].isScalar())
      is_scaled_ = !values[i].toScalar().equal(1);
  }
  is_of_kernels_ = std::any_of(arguments_.begin(), arguments_.end(), is_of_kernels);
}

void OperatorCall::finish(const torch::jit::Stack& stack) const {
  std::vector<at::Tensor> results;
  for (const auto& value : torch::jit::last(stack, op_.schema().returns().size()))
    add_tensors(value, results);
  if (is_of_kernels_)
    for (const auto& result : results)
      if (is_here(result)) {
        auto shadow = shadow_of(result);
        shadow.masked_fill_(shadow.eq(SIM_WRITTEN), SIM_BY_KERNEL);
      }
  if (unrecorded)
    return;
  int64_t elements = 0, listed = 0;
  const auto add = [&](const at::Tensor& tensor) {
    elements = std::max(elements, tensor.numel());
    listed += tensor.numel();
  };
  std::for_each(arguments_.begin(), arguments_.end(), add);
  std::for_each(results.begin(), results.end(), add);
  if (has_list_)
    elements = listed;
  std::string name = op_.schema().name();
  const uint64_t multiplied = results.empty() ? 0 : products(name, arguments_, results[0]);
  if (is_scaled_)
    name += " (scaled)";
  sim_record(sim_worker_operator, name.c_str(), elements, multiplied);
}

// A copy between tensors, of which one may be on the CPU.
void record_copy(const at::Tensor& to, const at::Tensor& from) {
  if (unrecorded)
    return;
  if (to.is_cuda() && from.is_cuda())
    sim_record(sim_worker_operator, "aten::copy_", to.numel(), 0);
  else
    sim_record(sim_worker_copy, to.is_cuda() ? "from host" : "to host", from.nbytes(), 0);
}

// The host has read one element.
void record_scalar(const at::Tensor& from) {
  if (!unrecorded)
    sim_record(sim_worker_copy, "to host", from.element_size(), 0);
}

} // namespace
