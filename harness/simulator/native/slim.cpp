// The functions of torch that the slim headers (compiler/include/slim/) call. This file is compiled
// once with torch's full headers, so that submissions need not be.
#include "../../compiler/include/slim/harness/functions.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>

#include <limits>
#include <optional>
#include <sstream>
#include <type_traits>
#include <utility>

namespace harness_slim {

namespace {

// The slim headers declare these types and constants themselves, and must agree with torch.
static_assert(sizeof(at::Tensor) == sizeof(void*) && sizeof(at::TensorBase) == sizeof(void*));
static_assert(sizeof(c10::Device) == sizeof(Place));
static_assert(sizeof(at::IntArrayRef) == sizeof(Numbers));
static_assert(std::is_trivially_copyable_v<at::IntArrayRef>);
static_assert(std::is_same_v<std::underlying_type_t<c10::ScalarType>, int8_t>);
static_assert(std::is_same_v<std::underlying_type_t<c10::DeviceType>, int8_t>);
static_assert(std::is_same_v<std::underlying_type_t<c10::MemoryFormat>, int8_t>);
static_assert(static_cast<int>(c10::ScalarType::Byte) == 0);
static_assert(static_cast<int>(c10::ScalarType::Char) == 1);
static_assert(static_cast<int>(c10::ScalarType::Short) == 2);
static_assert(static_cast<int>(c10::ScalarType::Int) == 3);
static_assert(static_cast<int>(c10::ScalarType::Long) == 4);
static_assert(static_cast<int>(c10::ScalarType::Half) == 5);
static_assert(static_cast<int>(c10::ScalarType::Float) == 6);
static_assert(static_cast<int>(c10::ScalarType::Double) == 7);
static_assert(static_cast<int>(c10::ScalarType::Bool) == 11);
static_assert(static_cast<int>(c10::ScalarType::BFloat16) == 15);
static_assert(static_cast<int>(c10::DeviceType::CPU) == 0);
static_assert(static_cast<int>(c10::DeviceType::CUDA) == 1);
static_assert(static_cast<int>(c10::Layout::Strided) == 0);
static_assert(static_cast<int>(c10::MemoryFormat::Contiguous) == 0);
static_assert(static_cast<int>(c10::MemoryFormat::Preserve) == 1);
static_assert(static_cast<int>(c10::MemoryFormat::ChannelsLast) == 2);
static_assert(static_cast<int>(c10::MemoryFormat::ChannelsLast3d) == 3);

at::IntArrayRef list(Numbers numbers) {
  return {numbers.data, numbers.length};
}

Numbers numbers(at::IntArrayRef all) {
  return {all.data(), all.size()};
}

c10::Device device_of(Place place) {
  return {static_cast<c10::DeviceType>(place.type), place.index};
}

// A value of an option, or nothing if it is negative, which means that the caller did not set it.
template <typename T>
std::optional<T> said(int8_t value) {
  return value < 0 ? std::nullopt : std::optional<T>(static_cast<T>(value));
}

// The options for torch, without `requires_grad`: operators below autograd refuse it, so the caller
// sets it afterwards.
c10::TensorOptions options_of(const Options& all) {
  auto options = c10::TensorOptions()
                     .dtype(said<c10::ScalarType>(all.dtype))
                     .layout(said<c10::Layout>(all.layout))
                     .memory_format(said<c10::MemoryFormat>(all.memory_format))
                     .pinned_memory(said<bool>(all.pinned_memory));
  if (all.device_type >= 0)
    options = options.device(device_of({all.device_type, all.device_index}));
  return options;
}

c10::Scalar scalar(Number number) {
  switch (number.kind) {
    case Number::floating:
      return number.floating_value;
    case Number::boolean:
      return static_cast<bool>(number.integral_value);
    default:
      return number.integral_value;
  }
}

at::Tensor with_grad(const at::Tensor& tensor, const Options& options) {
  return options.requires_grad < 0 ? tensor : tensor.set_requires_grad(options.requires_grad);
}

template <typename T>
void append_streamed(std::string& text, const T& value) {
  std::ostringstream stream;
  stream << value;
  text += stream.str();
}

} // namespace

void* undefined() {
  return c10::UndefinedTensorImpl::singleton();
}
void retain(void* held) {
  if (held != undefined())
    c10::raw::intrusive_ptr::incref(static_cast<c10::TensorImpl*>(held));
}
void release(void* held) {
  if (held != undefined())
    c10::raw::intrusive_ptr::decref(static_cast<c10::TensorImpl*>(held));
}

bool defined(const at::TensorBase& tensor) {
  return tensor.defined();
}
int64_t dim(const at::TensorBase& tensor) {
  return tensor.dim();
}
int64_t numel(const at::TensorBase& tensor) {
  return tensor.numel();
}
size_t nbytes(const at::TensorBase& tensor) {
  return tensor.nbytes();
}
int64_t element_size(const at::TensorBase& tensor) {
  return tensor.element_size();
}
int64_t storage_offset(const at::TensorBase& tensor) {
  return tensor.storage_offset();
}
int64_t size(const at::TensorBase& tensor, int64_t axis) {
  return tensor.size(axis);
}
int64_t stride(const at::TensorBase& tensor, int64_t axis) {
  return tensor.stride(axis);
}
Numbers sizes(const at::TensorBase& tensor) {
  return numbers(tensor.sizes());
}
Numbers strides(const at::TensorBase& tensor) {
  return numbers(tensor.strides());
}
c10::ScalarType scalar_type(const at::TensorBase& tensor) {
  return tensor.scalar_type();
}
Place device(const at::TensorBase& tensor) {
  const auto device = tensor.device();
  return {static_cast<int8_t>(device.type()), device.index()};
}
Options options(const at::TensorBase& tensor) {
  const auto place = device(tensor);
  Options options;
  options.dtype = static_cast<int8_t>(tensor.scalar_type());
  options.device_type = place.type;
  options.device_index = place.index;
  options.layout = static_cast<int8_t>(tensor.layout());
  return options;
}
bool requires_grad(const at::TensorBase& tensor) {
  return tensor.requires_grad();
}
bool is_contiguous(const at::TensorBase& tensor, int8_t format) {
  return tensor.is_contiguous(static_cast<c10::MemoryFormat>(format));
}
const void* const_data(const at::TensorBase& tensor) {
  return tensor.const_data_ptr();
}
void* mutable_data(const at::TensorBase& tensor) {
  return tensor.mutable_data_ptr();
}

at::Tensor make(Fill fill, Numbers sizes, Number value, const Options& asked) {
  const auto options = options_of(asked);
  switch (fill) {
    case Fill::nothing:
      return with_grad(at::empty(list(sizes), options), asked);
    case Fill::zeros:
      return with_grad(at::zeros(list(sizes), options), asked);
    case Fill::ones:
      return with_grad(at::ones(list(sizes), options), asked);
    default:
      return with_grad(at::full(list(sizes), scalar(value), options), asked);
  }
}
at::Tensor make_like(Fill fill, const at::Tensor& like, Number value, const Options& asked) {
  const auto options = options_of(asked);
  switch (fill) {
    case Fill::nothing:
      return with_grad(at::empty_like(like, options), asked);
    case Fill::zeros:
      return with_grad(at::zeros_like(like, options), asked);
    case Fill::ones:
      return with_grad(at::ones_like(like, options), asked);
    default:
      return with_grad(at::full_like(like, scalar(value), options), asked);
  }
}
at::Tensor contiguous(const at::Tensor& tensor, int8_t format) {
  return tensor.contiguous(static_cast<c10::MemoryFormat>(format));
}
at::Tensor to(const at::Tensor& tensor, const Options& options, bool non_blocking, bool copy) {
  return tensor.to(options_of(options), non_blocking, copy);
}
at::Tensor clone(const at::Tensor& tensor, int8_t format) {
  return tensor.clone(said<c10::MemoryFormat>(format));
}
at::Tensor detach(const at::Tensor& tensor) {
  return tensor.detach();
}
at::Tensor view(const at::Tensor& tensor, Numbers sizes) {
  return tensor.view(list(sizes));
}
at::Tensor reshape(const at::Tensor& tensor, Numbers sizes) {
  return tensor.reshape(list(sizes));
}
at::Tensor expand(const at::Tensor& tensor, Numbers sizes) {
  return tensor.expand(list(sizes));
}
at::Tensor permute(const at::Tensor& tensor, Numbers axes) {
  return tensor.permute(list(axes));
}
at::Tensor transpose(const at::Tensor& tensor, int64_t one, int64_t other) {
  return tensor.transpose(one, other);
}
at::Tensor t(const at::Tensor& tensor) {
  return tensor.t();
}
at::Tensor flatten(const at::Tensor& tensor, int64_t first, int64_t last) {
  return tensor.flatten(first, last);
}
at::Tensor squeeze(const at::Tensor& tensor) {
  return tensor.squeeze();
}
at::Tensor squeeze(const at::Tensor& tensor, int64_t axis) {
  return tensor.squeeze(axis);
}
at::Tensor unsqueeze(const at::Tensor& tensor, int64_t axis) {
  return tensor.unsqueeze(axis);
}
at::Tensor select(const at::Tensor& tensor, int64_t axis, int64_t index) {
  return tensor.select(axis, index);
}
at::Tensor narrow(const at::Tensor& tensor, int64_t axis, int64_t begin, int64_t length) {
  return tensor.narrow(axis, begin, length);
}
void zero(const at::Tensor& tensor) {
  tensor.zero_();
}
void fill(const at::Tensor& tensor, Number value) {
  tensor.fill_(scalar(value));
}
void copy(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  to.copy_(from, non_blocking);
}

void fail(const char* function, const char* file, uint32_t line, const std::string& message) {
  throw c10::Error({function, file, line}, message);
}
void not_implemented(
    const char* function, const char* file, uint32_t line, const std::string& message) {
  throw c10::NotImplementedError({function, file, line}, message);
}
void check_cuda(int error, const char* function, const char* file, uint32_t line) {
  c10::cuda::detail::check(static_cast<cudaError_t>(error), function, file, line);
}
void append(std::string& text, double value) {
  append_streamed(text, value);
}
void append(std::string& text, Place place) {
  append_streamed(text, device_of(place));
}
void append(std::string& text, Numbers numbers) {
  append_streamed(text, list(numbers));
}
void append_device_type(std::string& text, int8_t type) {
  append_streamed(text, static_cast<c10::DeviceType>(type));
}
void append_type_name(std::string& text, c10::ScalarType type) {
  append_streamed(text, c10::scalarTypeToTypeMeta(type));
}
const char* name(c10::ScalarType type) {
  return c10::toString(type);
}
Place parse_device(const std::string& text) {
  const c10::Device device(text);
  return {static_cast<int8_t>(device.type()), device.index()};
}

namespace {
Binder binder;
}

void bind_with(const Binder& with) {
  binder = with;
}
void define(void* module, const Function& function) {
  binder.define(module, function);
}
void* make_module(const char* name, void (*bind)(void* module)) {
  return binder.make_module(name, bind);
}

void guard(Place place) {
  const c10::DeviceGuard held(device_of(place));
}
void guard_cuda(Place place) {
  const auto device = device_of(place);
  TORCH_CHECK(device.is_cuda(), "Expected a CUDA device, but got ", device);
  c10::cuda::set_device(device.has_index() ? device.index() : c10::DeviceIndex(0));
}

} // namespace harness_slim
