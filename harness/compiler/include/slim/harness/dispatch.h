// Dispatch by dtype, under torch's names: `scalar_t` is the type in each case's lambda.
#pragma once

#include <harness/check.h>

namespace harness_slim {

template <c10::ScalarType>
struct Numeric;
#define HARNESS_NUMERIC(name, type)         \
  template <>                               \
  struct Numeric<c10::ScalarType::name> {   \
    using Type = type;                      \
  };
HARNESS_NUMERIC(Byte, uint8_t)
HARNESS_NUMERIC(Char, int8_t)
HARNESS_NUMERIC(Short, int16_t)
HARNESS_NUMERIC(Int, int)
HARNESS_NUMERIC(Long, int64_t)
HARNESS_NUMERIC(Half, c10::Half)
HARNESS_NUMERIC(Float, float)
HARNESS_NUMERIC(Double, double)
HARNESS_NUMERIC(Bool, bool)
HARNESS_NUMERIC(BFloat16, c10::BFloat16)
#undef HARNESS_NUMERIC

template <typename T>
struct OpMathType {
  using type = T;
};
template <>
struct OpMathType<c10::Half> {
  using type = float;
};
template <>
struct OpMathType<c10::BFloat16> {
  using type = float;
};

inline c10::ScalarType dtype_of(c10::ScalarType type) {
  return type;
}
inline c10::ScalarType dtype_of(TypeMeta type) {
  return type.toScalarType();
}

} // namespace harness_slim

namespace at {
using harness_slim::OpMathType;
template <typename T>
using opmath_type = typename OpMathType<T>::type;
} // namespace at

#define AT_DISPATCH_CASE(DTYPE, ...)                                              \
  case DTYPE: {                                                                   \
    using scalar_t [[maybe_unused]] = ::harness_slim::Numeric<DTYPE>::Type;       \
    return __VA_ARGS__();                                                         \
  }

#define AT_DISPATCH_SWITCH(TYPE, NAME, ...)                                       \
  [&] {                                                                           \
    const auto harness_dtype = ::harness_slim::dtype_of(TYPE);                    \
    switch (harness_dtype) {                                                      \
      __VA_ARGS__                                                                 \
      default:                                                                    \
        ::harness_slim::not_implemented(                                          \
            __func__,                                                             \
            __FILE__,                                                             \
            static_cast<uint32_t>(__LINE__),                                      \
            ::harness_slim::text(                                                 \
                '"', NAME, "\" not implemented for '", harness_dtype, "'"));      \
    }                                                                             \
  }()

#define AT_DISPATCH_CASE_FLOATING_TYPES(...)                   \
  AT_DISPATCH_CASE(::c10::ScalarType::Double, __VA_ARGS__)     \
  AT_DISPATCH_CASE(::c10::ScalarType::Float, __VA_ARGS__)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES(...)                   \
  AT_DISPATCH_CASE(::c10::ScalarType::Byte, __VA_ARGS__)       \
  AT_DISPATCH_CASE(::c10::ScalarType::Char, __VA_ARGS__)       \
  AT_DISPATCH_CASE(::c10::ScalarType::Int, __VA_ARGS__)        \
  AT_DISPATCH_CASE(::c10::ScalarType::Long, __VA_ARGS__)       \
  AT_DISPATCH_CASE(::c10::ScalarType::Short, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES(...)        \
  AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)

#define AT_DISPATCH_FLOATING_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(TYPE, NAME, ...) \
  AT_DISPATCH_FLOATING_TYPES_AND(::c10::ScalarType::Half, TYPE, NAME, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND(ONE, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(                                        \
      TYPE,                                                  \
      NAME,                                                  \
      AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(ONE, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(ONE, OTHER, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(                                                \
      TYPE,                                                          \
      NAME,                                                          \
      AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)                   \
      AT_DISPATCH_CASE(ONE, __VA_ARGS__)                             \
      AT_DISPATCH_CASE(OTHER, __VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__))
