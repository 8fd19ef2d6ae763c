// Tensors for kernels' host code, under torch's names.
//
// The types in the signatures of a submission's functions have torch's names and layout, because
// another source may be compiled with torch's headers (native/slim.cpp asserts it). Types with
// another layout belong to harness_slim, and no other source may name them (compiler/slim.py).
// A source that does not compile with this header is compiled again with the light headers.
#pragma once

#include <harness/text.h>

// c10's headers of 16-bit types use it without including it.
#include <limits>

// These headers take a third of the compile time, so a source that uses nothing of them leaves them
// out (definitions() in compiler/slim.py).
#ifdef HARNESS_WITHOUT_HALF
namespace c10 {
struct BFloat16;
struct Half;
} // namespace c10
#else
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#endif
#ifndef HARNESS_WITHOUT_ALGORITHM
#include <algorithm>
#endif

#include <array>
#include <cfloat>
#include <climits>
#include <cmath>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

// For a function that has the name of one of torch's and another return type. The tag gives it a
// symbol of its own; otherwise the linker would keep only one of the two functions.
#define HARNESS_OWN __attribute__((abi_tag("slim")))

namespace c10 {

enum class ScalarType : int8_t {
  Byte = 0,
  Char = 1,
  Short = 2,
  Int = 3,
  Long = 4,
  Half = 5,
  Float = 6,
  Double = 7,
  Bool = 11,
  BFloat16 = 15
};

constexpr auto kByte = ScalarType::Byte;
constexpr auto kChar = ScalarType::Char;
constexpr auto kShort = ScalarType::Short;
constexpr auto kInt = ScalarType::Int;
constexpr auto kLong = ScalarType::Long;
constexpr auto kHalf = ScalarType::Half;
constexpr auto kFloat = ScalarType::Float;
constexpr auto kDouble = ScalarType::Double;
constexpr auto kBool = ScalarType::Bool;
constexpr auto kBFloat16 = ScalarType::BFloat16;

inline const char* toString(ScalarType type) {
  return harness_slim::name(type);
}

enum class DeviceType : int8_t { CPU = 0, CUDA = 1 };
constexpr auto kCPU = DeviceType::CPU;
constexpr auto kCUDA = DeviceType::CUDA;
using DeviceIndex = int8_t;

struct Device final {
  using Type = DeviceType;

  Device(DeviceType type, DeviceIndex index = -1) : type_(type), index_(index) {}
  Device(const std::string& text) : Device(harness_slim::parse_device(text)) {}
  explicit Device(harness_slim::Place place)
      : type_(static_cast<DeviceType>(place.type)), index_(place.index) {}

  bool operator==(const Device& other) const noexcept {
    return type_ == other.type_ && index_ == other.index_;
  }
  bool operator!=(const Device& other) const noexcept {
    return !(*this == other);
  }
  DeviceType type() const noexcept {
    return type_;
  }
  DeviceIndex index() const noexcept {
    return index_;
  }
  bool has_index() const noexcept {
    return index_ != -1;
  }
  bool is_cuda() const noexcept {
    return type_ == DeviceType::CUDA;
  }
  bool is_cpu() const noexcept {
    return type_ == DeviceType::CPU;
  }
  harness_slim::Place place() const noexcept {
    return {static_cast<int8_t>(type_), index_};
  }

 private:
  DeviceType type_;
  DeviceIndex index_;
};

enum class Layout : int8_t { Strided = 0 };
constexpr auto kStrided = Layout::Strided;
enum class MemoryFormat : int8_t { Contiguous = 0, Preserve = 1, ChannelsLast = 2, ChannelsLast3d = 3 };

template <typename T>
class ArrayRef {
 public:
  using value_type = T;
  using const_iterator = const T*;

  ArrayRef() = default;
  ArrayRef(const T& one) : data_(&one), length_(1) {}
  ArrayRef(const T* data, size_t length) : data_(data), length_(length) {}
  ArrayRef(const T* begin, const T* end) : data_(begin), length_(end - begin) {}
  template <typename A>
  ArrayRef(const std::vector<T, A>& all) : data_(all.data()), length_(all.size()) {}
  template <size_t N>
  ArrayRef(const std::array<T, N>& all) : data_(all.data()), length_(N) {}
  template <size_t N>
  ArrayRef(const T (&all)[N]) : data_(all), length_(N) {}
  // As in torch: the list lives until the end of the full expression, which suffices for an
  // argument.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"
  ArrayRef(const std::initializer_list<T>& all)
      : data_(all.begin() == all.end() ? nullptr : all.begin()), length_(all.size()) {}
#pragma GCC diagnostic pop

  const T* begin() const {
    return data_;
  }
  const T* end() const {
    return data_ + length_;
  }
  const T* data() const {
    return data_;
  }
  size_t size() const {
    return length_;
  }
  bool empty() const {
    return !length_;
  }
  const T& operator[](size_t index) const {
    return data_[index];
  }
  std::vector<T> vec() const {
    return {begin(), end()};
  }
  bool equals(ArrayRef other) const {
    if (length_ != other.length_)
      return false;
    for (size_t i = 0; i < length_; ++i)
      if (!(data_[i] == other.data_[i]))
        return false;
    return true;
  }

 private:
  const T* data_ = nullptr;
  size_t length_ = 0;
};

template <typename T>
bool operator==(ArrayRef<T> one, ArrayRef<T> other) {
  return one.equals(other);
}
template <typename T>
bool operator!=(ArrayRef<T> one, ArrayRef<T> other) {
  return !one.equals(other);
}

using IntArrayRef = ArrayRef<int64_t>;

using std::nullopt;
using std::nullopt_t;
using std::optional;

} // namespace c10

namespace harness_slim {

inline Numbers numbers(c10::IntArrayRef all) {
  return {all.data(), all.size()};
}
inline void append(std::string& text, c10::Device device) {
  append(text, device.place());
}
inline void append(std::string& text, c10::DeviceType type) {
  append_device_type(text, static_cast<int8_t>(type));
}
inline void append(std::string& text, c10::IntArrayRef all) {
  append(text, numbers(all));
}

// caffe2::TypeMeta, the type of Tensor::dtype().
class TypeMeta {
 public:
  explicit TypeMeta(c10::ScalarType type) : type_(type) {}
  c10::ScalarType toScalarType() const {
    return type_;
  }
  friend bool operator==(TypeMeta one, TypeMeta other) {
    return one.type_ == other.type_;
  }
  friend bool operator!=(TypeMeta one, TypeMeta other) {
    return one.type_ != other.type_;
  }
  friend bool operator==(TypeMeta one, c10::ScalarType other) {
    return one.type_ == other;
  }
  friend bool operator!=(TypeMeta one, c10::ScalarType other) {
    return one.type_ != other;
  }
  friend bool operator==(c10::ScalarType one, TypeMeta other) {
    return one == other.type_;
  }
  friend bool operator!=(c10::ScalarType one, TypeMeta other) {
    return one != other.type_;
  }

 private:
  c10::ScalarType type_;
};

inline void append(std::string& text, TypeMeta type) {
  append_type_name(text, type.toScalarType());
}

class Scalar {
 public:
  template <typename T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Scalar(T value)
      : number_{
            std::is_same_v<T, bool>              ? Number::boolean
                : std::is_floating_point_v<T> ? Number::floating
                                                 : Number::integral,
            static_cast<double>(value),
            static_cast<int64_t>(value)} {
    // torch stores these as unsigned numbers, which `Number` cannot hold.
    static_assert(!std::is_same_v<T, unsigned long> && !std::is_same_v<T, unsigned long long>);
  }
  Number number() const {
    return number_;
  }

 private:
  Number number_;
};

class TensorOptions {
 public:
  TensorOptions() = default;
  explicit TensorOptions(const Options& options) : options_(options) {}
  TensorOptions(c10::ScalarType type) : TensorOptions(TensorOptions().dtype(type)) {}
  TensorOptions(TypeMeta type) : TensorOptions(type.toScalarType()) {}
  TensorOptions(c10::Device device) : TensorOptions(TensorOptions().device(device)) {}
  TensorOptions(c10::DeviceType type) : TensorOptions(c10::Device(type)) {}
  TensorOptions(c10::Layout layout) : TensorOptions(TensorOptions().layout(layout)) {}
  TensorOptions(c10::MemoryFormat format) : TensorOptions(TensorOptions().memory_format(format)) {}

  TensorOptions dtype(c10::ScalarType type) const {
    return with(&Options::dtype, type);
  }
  TensorOptions dtype(TypeMeta type) const {
    return dtype(type.toScalarType());
  }
  TensorOptions device(c10::Device device) const {
    return with(&Options::device_type, device.type()).with(&Options::device_index, device.index());
  }
  TensorOptions device(c10::DeviceType type, c10::DeviceIndex index) const {
    return device(c10::Device(type, index));
  }
  TensorOptions layout(c10::Layout layout) const {
    return with(&Options::layout, layout);
  }
  TensorOptions memory_format(c10::MemoryFormat format) const {
    return with(&Options::memory_format, format);
  }
  TensorOptions requires_grad(bool value) const {
    return with(&Options::requires_grad, value);
  }
  TensorOptions pinned_memory(bool value) const {
    return with(&Options::pinned_memory, value);
  }
  const Options& all() const {
    return options_;
  }

 private:
  template <typename T>
  TensorOptions with(int8_t Options::*field, T value) const {
    TensorOptions made = *this;
    made.options_.*field = static_cast<int8_t>(value);
    return made;
  }
  Options options_;
};

} // namespace harness_slim

namespace caffe2 {
using harness_slim::TypeMeta;
}

namespace c10 {
using harness_slim::Scalar;
using harness_slim::TensorOptions;
inline TensorOptions dtype(ScalarType type) {
  return type;
}
inline TensorOptions dtype(harness_slim::TypeMeta type) {
  return type;
}
inline TensorOptions device(Device device) {
  return device;
}
inline TensorOptions layout(Layout layout) {
  return layout;
}
inline TensorOptions requires_grad(bool value = true) {
  return TensorOptions().requires_grad(value);
}
} // namespace c10

namespace at {

using namespace c10;

class TensorBase {
 public:
  TensorBase() : held_(harness_slim::undefined()) {}
  TensorBase(const TensorBase& other) : held_(other.held_) {
    harness_slim::retain(held_);
  }
  TensorBase(TensorBase&& other) noexcept : held_(other.held_) {
    other.held_ = harness_slim::undefined();
  }
  TensorBase& operator=(const TensorBase& other) & {
    harness_slim::retain(other.held_);
    harness_slim::release(held_);
    held_ = other.held_;
    return *this;
  }
  TensorBase& operator=(TensorBase&& other) & noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~TensorBase() noexcept {
    harness_slim::release(held_);
  }

  bool defined() const {
    return harness_slim::defined(*this);
  }
  int64_t dim() const {
    return harness_slim::dim(*this);
  }
  int64_t ndimension() const {
    return dim();
  }
  int64_t numel() const {
    return harness_slim::numel(*this);
  }
  size_t nbytes() const {
    return harness_slim::nbytes(*this);
  }
  int64_t element_size() const {
    return harness_slim::element_size(*this);
  }
  size_t itemsize() const {
    return element_size();
  }
  int64_t storage_offset() const {
    return harness_slim::storage_offset(*this);
  }
  int64_t size(int64_t axis) const {
    return harness_slim::size(*this, axis);
  }
  int64_t stride(int64_t axis) const {
    return harness_slim::stride(*this, axis);
  }
  IntArrayRef sizes() const {
    const auto all = harness_slim::sizes(*this);
    return {all.data, all.length};
  }
  IntArrayRef strides() const {
    const auto all = harness_slim::strides(*this);
    return {all.data, all.length};
  }
  ScalarType scalar_type() const {
    return harness_slim::scalar_type(*this);
  }
  HARNESS_OWN harness_slim::TypeMeta dtype() const {
    return harness_slim::TypeMeta(scalar_type());
  }
  Device device() const {
    return Device(harness_slim::device(*this));
  }
  DeviceIndex get_device() const {
    return device().index();
  }
  bool is_cuda() const {
    return device().is_cuda();
  }
  bool is_cpu() const {
    return device().is_cpu();
  }
  HARNESS_OWN TensorOptions options() const {
    return TensorOptions(harness_slim::options(*this));
  }
  bool requires_grad() const {
    return harness_slim::requires_grad(*this);
  }
  bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const {
    return harness_slim::is_contiguous(*this, static_cast<int8_t>(format));
  }
  const void* const_data_ptr() const {
    return harness_slim::const_data(*this);
  }
  void* mutable_data_ptr() const {
    return harness_slim::mutable_data(*this);
  }
  void* data_ptr() const {
    return mutable_data_ptr();
  }
  // torch's libraries define these for each element type.
  template <typename T>
  T* mutable_data_ptr() const;
  template <typename T>
  T* data_ptr() const;
  // torch's libraries define this too, but its symbol differs between releases.
  template <typename T>
  const T* const_data_ptr() const {
    return mutable_data_ptr<std::remove_const_t<T>>();
  }

 private:
  void* held_;
};

class Tensor : public TensorBase {
 public:
  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(const Tensor& other) & {
    TensorBase::operator=(other);
    return *this;
  }
  Tensor& operator=(Tensor&& other) & noexcept {
    TensorBase::operator=(std::move(other));
    return *this;
  }
  ~Tensor() noexcept = default;

  template <typename T>
  T item() const;

  Tensor contiguous(MemoryFormat format = MemoryFormat::Contiguous) const {
    return harness_slim::contiguous(*this, static_cast<int8_t>(format));
  }
  Tensor to(ScalarType type, bool non_blocking = false, bool copy = false) const {
    return to(TensorOptions(type), non_blocking, copy);
  }
  Tensor to(Device device, bool non_blocking = false, bool copy = false) const {
    return to(TensorOptions(device), non_blocking, copy);
  }
  Tensor to(DeviceType type, bool non_blocking = false, bool copy = false) const {
    return to(TensorOptions(type), non_blocking, copy);
  }
  Tensor to(const TensorOptions& options, bool non_blocking = false, bool copy = false) const {
    return harness_slim::to(*this, options.all(), non_blocking, copy);
  }
  Tensor clone() const {
    return harness_slim::clone(*this, -1);
  }
  Tensor clone(MemoryFormat format) const {
    return harness_slim::clone(*this, static_cast<int8_t>(format));
  }
  Tensor detach() const {
    return harness_slim::detach(*this);
  }
  Tensor view(IntArrayRef sizes) const {
    return harness_slim::view(*this, harness_slim::numbers(sizes));
  }
  Tensor reshape(IntArrayRef sizes) const {
    return harness_slim::reshape(*this, harness_slim::numbers(sizes));
  }
  Tensor expand(IntArrayRef sizes) const {
    return harness_slim::expand(*this, harness_slim::numbers(sizes));
  }
  Tensor permute(IntArrayRef axes) const {
    return harness_slim::permute(*this, harness_slim::numbers(axes));
  }
  Tensor transpose(int64_t one, int64_t other) const {
    return harness_slim::transpose(*this, one, other);
  }
  Tensor t() const {
    return harness_slim::t(*this);
  }
  Tensor flatten(int64_t first = 0, int64_t last = -1) const {
    return harness_slim::flatten(*this, first, last);
  }
  Tensor squeeze() const {
    return harness_slim::squeeze(*this);
  }
  Tensor squeeze(int64_t axis) const {
    return harness_slim::squeeze(*this, axis);
  }
  Tensor unsqueeze(int64_t axis) const {
    return harness_slim::unsqueeze(*this, axis);
  }
  Tensor select(int64_t axis, int64_t index) const {
    return harness_slim::select(*this, axis, index);
  }
  Tensor narrow(int64_t axis, int64_t begin, int64_t length) const {
    return harness_slim::narrow(*this, axis, begin, length);
  }
  Tensor& zero_() const {
    harness_slim::zero(*this);
    return const_cast<Tensor&>(*this);
  }
  Tensor& fill_(const Scalar& value) const {
    harness_slim::fill(*this, value.number());
    return const_cast<Tensor&>(*this);
  }
  Tensor& copy_(const Tensor& from, bool non_blocking = false) const {
    harness_slim::copy(*this, from, non_blocking);
    return const_cast<Tensor&>(*this);
  }
};

inline Tensor empty(IntArrayRef sizes, const TensorOptions& options = {}) {
  return harness_slim::make(
      harness_slim::Fill::nothing, harness_slim::numbers(sizes), {}, options.all());
}
inline Tensor zeros(IntArrayRef sizes, const TensorOptions& options = {}) {
  return harness_slim::make(
      harness_slim::Fill::zeros, harness_slim::numbers(sizes), {}, options.all());
}
inline Tensor ones(IntArrayRef sizes, const TensorOptions& options = {}) {
  return harness_slim::make(
      harness_slim::Fill::ones, harness_slim::numbers(sizes), {}, options.all());
}
inline Tensor full(IntArrayRef sizes, const Scalar& value, const TensorOptions& options = {}) {
  return harness_slim::make(
      harness_slim::Fill::value, harness_slim::numbers(sizes), value.number(), options.all());
}
inline Tensor empty_like(const Tensor& like, const TensorOptions& options = {}) {
  return harness_slim::make_like(harness_slim::Fill::nothing, like, {}, options.all());
}
inline Tensor zeros_like(const Tensor& like, const TensorOptions& options = {}) {
  return harness_slim::make_like(harness_slim::Fill::zeros, like, {}, options.all());
}
inline Tensor ones_like(const Tensor& like, const TensorOptions& options = {}) {
  return harness_slim::make_like(harness_slim::Fill::ones, like, {}, options.all());
}
inline Tensor full_like(const Tensor& like, const Scalar& value, const TensorOptions& options = {}) {
  return harness_slim::make_like(harness_slim::Fill::value, like, value.number(), options.all());
}

inline std::optional<Device> device_of(const Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor.device()) : std::nullopt;
}

using TensorList = ArrayRef<Tensor>;

} // namespace at

#include <harness/names.h>
