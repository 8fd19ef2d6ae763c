// Bindings to Python as load_inline writes them, for functions whose types the worker can convert.
// pybind11 itself, which takes g++ seconds, is compiled once (native/bindings.cpp). Bindings with
// other types, argument names or lambdas do not compile with this header; the harness compiles them
// again with the light headers.
#pragma once

#include <harness/torch.h>

namespace harness_slim {

template <typename T>
inline constexpr Kind kind_of = Kind::unknown;
template <>
inline constexpr Kind kind_of<void> = Kind::nothing;
template <>
inline constexpr Kind kind_of<at::Tensor> = Kind::tensor;
template <>
inline constexpr Kind kind_of<std::optional<at::Tensor>> = Kind::maybe_tensor;
template <>
inline constexpr Kind kind_of<std::vector<at::Tensor>> = Kind::tensors;
template <>
inline constexpr Kind kind_of<std::tuple<at::Tensor, at::Tensor>> = Kind::two_tensors;
template <>
inline constexpr Kind kind_of<std::tuple<at::Tensor, at::Tensor, at::Tensor>> = Kind::three_tensors;
template <>
inline constexpr Kind kind_of<bool> = Kind::boolean;
template <>
inline constexpr Kind kind_of<int> = Kind::int32;
template <>
inline constexpr Kind kind_of<unsigned> = Kind::unsigned32;
template <>
inline constexpr Kind kind_of<long> = Kind::int64;
template <>
inline constexpr Kind kind_of<unsigned long> = Kind::unsigned64;
template <>
inline constexpr Kind kind_of<float> = Kind::float32;
template <>
inline constexpr Kind kind_of<double> = Kind::float64;
template <>
inline constexpr Kind kind_of<std::string> = Kind::text;
template <>
inline constexpr Kind kind_of<std::vector<int64_t>> = Kind::integers;
template <>
inline constexpr Kind kind_of<std::optional<int64_t>> = Kind::maybe_int64;
template <>
inline constexpr Kind kind_of<std::optional<double>> = Kind::maybe_float64;

template <typename T>
using Plain = std::remove_cv_t<std::remove_reference_t<T>>;

constexpr bool is_taken(Kind kind) {
  return kind != Kind::unknown && kind != Kind::two_tensors && kind != Kind::three_tensors;
}

// Calls a function with the arguments at these addresses, and constructs the result at `result`.
template <typename Result, typename... Arguments, size_t... Numbers>
void call_with(
    Result (*function)(Arguments...), void** arguments, void* result, std::index_sequence<Numbers...>) {
  (void)arguments;
  if constexpr (std::is_void_v<Result>)
    function(static_cast<Arguments&&>(*static_cast<Plain<Arguments>*>(arguments[Numbers]))...);
  else
    new (result) Result(
        function(static_cast<Arguments&&>(*static_cast<Plain<Arguments>*>(arguments[Numbers]))...));
}

template <typename Result, typename... Arguments>
void call(void* function, void** arguments, void* result) {
  const auto typed = reinterpret_cast<Result (*)(Arguments...)>(function);
  call_with(typed, arguments, result, std::index_sequence_for<Arguments...>());
}

template <typename Signature>
struct Wrapped {
  Signature* function;
};

class Module {
 public:
  explicit Module(void* module) : module_(module) {}

  template <typename Result, typename... Arguments>
  Module& def(const char* name, Result (*function)(Arguments...), const char* doc = nullptr) {
    return define<Result, Arguments...>(name, function, doc, false);
  }
  template <typename Result, typename... Arguments>
  Module& def(const char* name, Wrapped<Result(Arguments...)> wrapped, const char* doc = nullptr) {
    return define<Result, Arguments...>(name, wrapped.function, doc, true);
  }

 private:
  template <typename Result, typename... Arguments>
  Module& define(
      const char* name, Result (*function)(Arguments...), const char* doc, bool has_torchs_errors) {
    static_assert(kind_of<Result> != Kind::unknown, "a result whose type only torch's headers take");
    static_assert(
        (is_taken(kind_of<Plain<Arguments>>) && ...),
        "an argument whose type only torch's headers take");
    const Kind kinds[] = {kind_of<Plain<Arguments>>..., Kind::nothing};
    harness_slim::define(
        module_,
        {name,
         doc,
         reinterpret_cast<void*>(function),
         call<Result, Arguments...>,
         kinds,
         sizeof...(Arguments),
         kind_of<Result>,
         has_torchs_errors});
    return *this;
  }

  void* module_;
};

} // namespace harness_slim

namespace torch {
// The function's exceptions become the Python exceptions that torch's own operators raise.
template <typename Result, typename... Arguments>
harness_slim::Wrapped<Result(Arguments...)> wrap_pybind_function(Result (&function)(Arguments...)) {
  return {function};
}
} // namespace torch

struct _object;

#ifdef TORCH_EXTENSION_NAME
// `name` is TORCH_EXTENSION_NAME. The second macro is needed to expand it before # and ##.
#define PYBIND11_MODULE(name, variable) HARNESS_MODULE(name, variable)
#define HARNESS_MODULE(name, variable)                                                   \
  static void harness_bind_##name(::harness_slim::Module&);                              \
  extern "C" __attribute__((visibility("default"))) struct _object* PyInit_##name() {    \
    return static_cast<struct _object*>(                                                 \
        ::harness_slim::make_module(#name, [](void* made) {                              \
          ::harness_slim::Module module(made);                                           \
          harness_bind_##name(module);                                                   \
        }));                                                                             \
  }                                                                                      \
  static void harness_bind_##name(::harness_slim::Module& variable)
#endif
