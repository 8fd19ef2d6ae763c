// The functions that the slim headers call in a worker's `cuda` device (native/slim.cpp), which is
// compiled with torch's own headers. Both include this file, so that their declarations agree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace c10 {
enum class ScalarType : int8_t;
}
namespace at {
class TensorBase;
class Tensor;
} // namespace at

namespace harness_slim {

// The fields of c10::Device.
struct Place {
  int8_t type;
  int8_t index;
};

// Sizes, strides or axes.
struct Numbers {
  const int64_t* data;
  size_t length;
};

// The fields of c10::TensorOptions; -1 if not set.
struct Options {
  int8_t dtype = -1;
  int8_t device_type = -1;
  int8_t device_index = -1;
  int8_t layout = -1;
  int8_t memory_format = -1;
  int8_t requires_grad = -1;
  int8_t pinned_memory = -1;
};

// A c10::Scalar.
struct Number {
  enum Kind : int8_t { floating, integral, boolean } kind;
  double floating_value;
  int64_t integral_value;
};

enum class Fill : int8_t { nothing, zeros, ones, value };

// ---- a tensor's storage, held by intrusive pointers ---------------------------------------------

void* undefined();
void retain(void* held);
void release(void* held);

// ---- properties of a tensor ---------------------------------------------------------------------

bool defined(const at::TensorBase&);
int64_t dim(const at::TensorBase&);
int64_t numel(const at::TensorBase&);
size_t nbytes(const at::TensorBase&);
int64_t element_size(const at::TensorBase&);
int64_t storage_offset(const at::TensorBase&);
int64_t size(const at::TensorBase&, int64_t axis);
int64_t stride(const at::TensorBase&, int64_t axis);
Numbers sizes(const at::TensorBase&);
Numbers strides(const at::TensorBase&);
c10::ScalarType scalar_type(const at::TensorBase&);
Place device(const at::TensorBase&);
Options options(const at::TensorBase&);
bool requires_grad(const at::TensorBase&);
bool is_contiguous(const at::TensorBase&, int8_t memory_format);
const void* const_data(const at::TensorBase&);
void* mutable_data(const at::TensorBase&);

// ---- operators ----------------------------------------------------------------------------------

at::Tensor make(Fill, Numbers sizes, Number value, const Options&);
at::Tensor make_like(Fill, const at::Tensor&, Number value, const Options&);
at::Tensor contiguous(const at::Tensor&, int8_t memory_format);
at::Tensor to(const at::Tensor&, const Options&, bool non_blocking, bool copy);
at::Tensor clone(const at::Tensor&, int8_t memory_format);
at::Tensor detach(const at::Tensor&);
at::Tensor view(const at::Tensor&, Numbers sizes);
at::Tensor reshape(const at::Tensor&, Numbers sizes);
at::Tensor expand(const at::Tensor&, Numbers sizes);
at::Tensor permute(const at::Tensor&, Numbers axes);
at::Tensor transpose(const at::Tensor&, int64_t one, int64_t other);
at::Tensor t(const at::Tensor&);
at::Tensor flatten(const at::Tensor&, int64_t first, int64_t last);
at::Tensor squeeze(const at::Tensor&);
at::Tensor squeeze(const at::Tensor&, int64_t axis);
at::Tensor unsqueeze(const at::Tensor&, int64_t axis);
at::Tensor select(const at::Tensor&, int64_t axis, int64_t index);
at::Tensor narrow(const at::Tensor&, int64_t axis, int64_t begin, int64_t length);
void zero(const at::Tensor&);
void fill(const at::Tensor&, Number value);
void copy(const at::Tensor& to, const at::Tensor& from, bool non_blocking);

// ---- errors and their messages ------------------------------------------------------------------

[[noreturn]] void fail(const char* function, const char* file, uint32_t line, const std::string&);
[[noreturn]] void not_implemented(
    const char* function, const char* file, uint32_t line, const std::string&);
void check_cuda(int error, const char* function, const char* file, uint32_t line);
void append(std::string&, double);
void append(std::string&, Place);
void append(std::string&, Numbers);
void append_device_type(std::string&, int8_t);
void append_type_name(std::string&, c10::ScalarType);
const char* name(c10::ScalarType);
Place parse_device(const std::string&);

// ---- bindings to Python -------------------------------------------------------------------------

// The types of arguments and results that bindings convert.
enum class Kind : uint8_t {
  nothing,
  tensor,
  maybe_tensor,
  tensors,
  two_tensors,
  three_tensors,
  boolean,
  int32,
  unsigned32,
  int64,
  unsigned64,
  float32,
  float64,
  text,
  integers,
  maybe_int64,
  maybe_float64,
  unknown
};

struct Function {
  const char* name;
  const char* doc;
  void* function;
  // Calls `function` with the arguments at these addresses, and constructs the result at `result`.
  void (*call)(void* function, void** arguments, void* result);
  const Kind* arguments;
  size_t count;
  Kind result;
  bool has_torchs_errors;
};

void define(void* module, const Function&);
void* make_module(const char* name, void (*bind)(void* module));

// The implementation of both functions: native/bindings.cpp, a library of its own. It may depend on
// libraries for a real GPU. If it were part of the device's library, the lookup of the device's
// functions would search those dependencies too.
struct Binder {
  void (*define)(void* module, const Function&);
  void* (*make_module)(const char* name, void (*bind)(void* module));
};
void bind_with(const Binder&);

// ---- guards: there is one device, so they only check that the argument is that device -----------

void guard(Place);
void guard_cuda(Place);

} // namespace harness_slim
