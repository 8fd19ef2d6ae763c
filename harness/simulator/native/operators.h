// Operators of torch on the device. Their arguments are sent to the device process as values, and
// their results come back in the same form (layout/calls.py, Value). Only device.cpp includes this
// header, because one file compiles in half the time of two.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cudart/cudart.h"

namespace {

constexpr auto kDevice = c10::DeviceType::CUDA;

// Larger tensors of the host are copied to the device's memory first and not sent with the call.
constexpr size_t kMostInline = 1 << 16;

void release(void* pointer) {
  sim_release(pointer);
}

// A pointer to device memory that is freed with the last tensor in it.
c10::DataPtr owned(void* pointer) {
  return {pointer, pointer, &release, c10::Device(kDevice, 0)};
}

// A tensor in existing device memory, which it frees at the end.
at::Tensor adopted(
    void* memory,
    at::IntArrayRef sizes,
    at::IntArrayRef strides,
    at::ScalarType dtype) {
  auto result = at::detail::empty_strided_generic(
      {0}, {1}, c10::GetAllocator(kDevice), c10::DispatchKeySet(c10::DispatchKey::CUDA), dtype);
  auto* storage = result.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(owned(memory));
  storage->set_nbytes(at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype)));
  result.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return result;
}

// ---- arguments --------------------------------------------------------------------------------

class Arguments {
 public:
  void add(const c10::IValue& value);
  void add_text(const std::string& text);

  // The tensors among the arguments, in the order in which the device process numbers them.
  const std::vector<at::Tensor>& tensors() const {
    return tensors_;
  }
  const std::string& bytes() const {
    return bytes_;
  }

 private:
  template <typename T>
  void put(const T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put_kind(uint8_t kind) {
    put(kind);
  }
  void add_scalar(const at::Scalar& scalar);
  void add_tensor(const at::Tensor& tensor);
  void add_described(const at::Tensor& tensor, uint64_t address);

  std::string bytes_;
  std::vector<at::Tensor> tensors_;
  // Copies on the device of large host tensors, which must live until the operator has run.
  std::vector<at::Tensor> staged_;
};

void Arguments::add_text(const std::string& text) {
  put_kind(SIM_VALUE_TEXT);
  put<uint64_t>(text.size());
  bytes_ += text;
}

void Arguments::add_scalar(const at::Scalar& scalar) {
  if (scalar.isBoolean()) {
    put_kind(SIM_VALUE_TRUTH);
    put<uint8_t>(scalar.toBool());
  } else if (scalar.isIntegral(false)) {
    put_kind(SIM_VALUE_INTEGER);
    put<int64_t>(scalar.toLong());
  } else if (scalar.isFloatingPoint()) {
    put_kind(SIM_VALUE_REAL);
    put<double>(scalar.toDouble());
  } else {
    const auto number = scalar.toComplexDouble();
    put_kind(SIM_VALUE_COMPLEX);
    put<double>(number.real());
    put<double>(number.imag());
  }
}

void Arguments::add_described(const at::Tensor& tensor, uint64_t address) {
  sim_tensor described{};
  described.address = address;
  described.dtype = static_cast<int>(tensor.scalar_type());
  described.dimensions = static_cast<uint32_t>(tensor.dim());
  described.flags = (tensor.is_conj() ? SIM_CONJUGATED : 0) | (tensor.is_neg() ? SIM_NEGATED : 0);
  put(described);
  for (const int64_t size : tensor.sizes())
    put(size);
  for (const int64_t stride : tensor.strides())
    put(stride);
}

void Arguments::add_tensor(const at::Tensor& tensor) {
  if (!tensor.defined())
    return put_kind(SIM_VALUE_NONE);
  TORCH_CHECK_NOT_IMPLEMENTED(
      tensor.layout() == at::kStrided && !tensor.is_quantized(),
      "The simulated device has only dense tensors.");
  if (tensor.is_cuda()) {
    tensors_.push_back(tensor);
    put_kind(SIM_VALUE_TENSOR);
    return add_described(
        tensor, tensor.numel() ? reinterpret_cast<uint64_t>(tensor.const_data_ptr()) : 0);
  }
  TORCH_CHECK(
      tensor.is_cpu(), "Expected all tensors to be on the same device, but found ", tensor.device());
  // A Python number that torch has wrapped in a tensor.
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
    return add_scalar(tensor.item());
  const auto plain = tensor.resolve_conj().resolve_neg().contiguous();
  if (plain.nbytes() > kMostInline) {
    staged_.push_back(plain.to(at::Device(kDevice, 0)));
    return add_tensor(staged_.back());
  }
  tensors_.push_back(tensor);
  put_kind(SIM_VALUE_HOST_TENSOR);
  add_described(plain, 0);
  bytes_.append(static_cast<const char*>(plain.const_data_ptr()), plain.nbytes());
}

void Arguments::add(const c10::IValue& value) {
  if (value.isNone())
    return put_kind(SIM_VALUE_NONE);
  if (value.isTensor())
    return add_tensor(value.toTensor());
  if (value.isScalar())
    return add_scalar(value.toScalar());
  if (value.isString())
    return add_text(value.toStringRef());
  if (value.isDevice())
    return put_kind(SIM_VALUE_DEVICE);
  if (value.isList()) {
    const auto list = value.toListRef();
    put_kind(SIM_VALUE_LIST);
    put<uint64_t>(list.size());
    for (const c10::IValue& each : list)
      add(each);
    return;
  }
  TORCH_CHECK(!value.isGenerator(), "Expected a 'cuda' device type for generator but found 'cpu'");
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "The simulated device takes no ", value.tagKind(), " as an argument of an operator.");
}

// ---- results ----------------------------------------------------------------------------------

class Results {
 public:
  Results(const std::string& bytes, const std::vector<at::Tensor>& arguments)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()), arguments_(arguments) {}

  c10::IValue take();
  bool is_at_end() const {
    return at_ == end_;
  }

 private:
  template <typename T>
  T get() {
    T value;
    TORCH_CHECK(
        static_cast<size_t>(end_ - at_) >= sizeof value, "The device's answer is too short.");
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::vector<int64_t> get_lengths(uint32_t count) {
    std::vector<int64_t> lengths(count);
    for (auto& length : lengths)
      length = get<int64_t>();
    return lengths;
  }
  at::Tensor take_tensor();
  at::Tensor take_argument();

  const char* at_;
  const char* end_;
  const std::vector<at::Tensor>& arguments_;
};

// A new tensor, for which the operator has allocated memory.
at::Tensor Results::take_tensor() {
  const auto described = get<sim_tensor>();
  const auto sizes = get_lengths(described.dimensions);
  const auto strides = get_lengths(described.dimensions);
  const auto dtype = static_cast<at::ScalarType>(described.dtype);
  return adopted(reinterpret_cast<void*>(described.address), sizes, strides, dtype);
}

// A result that is one of the arguments. An `out` argument that was too small has new memory.
at::Tensor Results::take_argument() {
  const auto number = get<uint64_t>();
  TORCH_CHECK(number < arguments_.size(), "The device's answer names no argument.");
  const at::Tensor argument = arguments_[number];
  if (!get<uint8_t>())
    return argument;
  const auto grown = take_tensor();
  auto* impl = argument.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(grown.storage());
  impl->set_sizes_and_strides(grown.sizes(), grown.strides(), 0);
  return argument;
}

c10::IValue Results::take() {
  switch (get<uint8_t>()) {
    case SIM_VALUE_NONE:
      return {};
    case SIM_VALUE_TRUTH:
      return static_cast<bool>(get<uint8_t>());
    case SIM_VALUE_INTEGER:
      return get<int64_t>();
    case SIM_VALUE_REAL:
      return get<double>();
    case SIM_VALUE_COMPLEX: {
      const auto real = get<double>();
      return c10::complex<double>(real, get<double>());
    }
    case SIM_VALUE_LIST: {
      std::vector<at::Tensor> list(get<uint64_t>());
      for (auto& each : list)
        each = take().toTensor();
      return list;
    }
    case SIM_VALUE_TENSOR:
      return take_tensor();
    case SIM_VALUE_ARGUMENT:
      return take_argument();
    default:
      TORCH_CHECK(false, "The device's answer has a value of a kind that is not known.");
  }
}

// ---- the call ---------------------------------------------------------------------------------

[[noreturn]] void raise(int error, const std::string& why) {
  switch (error) {
    case SIM_RAISED_INDEXERROR:
      TORCH_CHECK_INDEX(false, why);
    case SIM_RAISED_VALUEERROR:
      TORCH_CHECK_VALUE(false, why);
    case SIM_RAISED_TYPEERROR:
      TORCH_CHECK_TYPE(false, why);
    case SIM_RAISED_NOTIMPLEMENTEDERROR:
      TORCH_CHECK_NOT_IMPLEMENTED(false, why);
    case SIM_RAISED_OUTOFMEMORYERROR:
      TORCH_CHECK_WITH(OutOfMemoryError, false, why);
    default:
      TORCH_CHECK(false, why);
  }
}

void run_on_device(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  Arguments arguments;
  arguments.add_text(op.schema().name());
  arguments.add_text(op.schema().overload_name());
  for (const auto& value : torch::jit::last(*stack, count))
    arguments.add(value);
  char* data = nullptr;
  size_t size = 0;
  const sim_part part{arguments.bytes().data(), arguments.bytes().size()};
  const int error = sim_ask_any(SIM_CALL_OPERATOR, &part, 1, &data, &size);
  const std::unique_ptr<char, decltype(&std::free)> freed(data, &std::free);
  const std::string answer(data ? data : "", size);
  if (error)
    raise(error, answer);
  Results results(answer, arguments.tensors());
  torch::jit::drop(*stack, count);
  for (const auto& returned : op.schema().returns()) {
    auto value = results.take();
    const bool is_undefined = value.isNone() && returned.type()->kind() == c10::TypeKind::TensorType;
    torch::jit::push(*stack, is_undefined ? c10::IValue(at::Tensor()) : std::move(value));
  }
}

} // namespace
