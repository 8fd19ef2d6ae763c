// The part of <thrust/complex.h> that torch's complex numbers need: conversions, and declarations
// of functions that nothing calls. The real header is a sixth of the text that nvcc parses. A
// source that uses complex numbers or thrust gets the real header. A source that does not compile
// with this one is compiled again with the toolkit's.
#ifdef HARNESS_WHOLE_THRUST
#include_next <thrust/complex.h>
#else
#pragma once

namespace thrust {

template <typename T>
class complex {
 public:
  __host__ __device__ complex(T real = T(), T imaginary = T()) : real_(real), imaginary_(imaginary) {}
  template <typename U>
  __host__ __device__ complex(const complex<U>& other) : real_(other.real()), imaginary_(other.imag()) {}

  __host__ __device__ T real() const {
    return real_;
  }
  __host__ __device__ T imag() const {
    return imaginary_;
  }

 private:
  T real_;
  T imaginary_;
};

template <typename T>
__host__ __device__ T abs(const complex<T>&);
template <typename T>
__host__ __device__ complex<T> polar(const T& radius, const T& angle);
template <typename T>
__host__ __device__ complex<T> pow(const complex<T>&, const complex<T>&);
template <typename T>
__host__ __device__ complex<T> pow(const complex<T>&, const T&);
template <typename T>
__host__ __device__ complex<T> pow(const T&, const complex<T>&);

#define HARNESS_COMPLEX_FUNCTION(name) \
  template <typename T>                \
  __host__ __device__ complex<T> name(const complex<T>&);
HARNESS_COMPLEX_FUNCTION(exp)
HARNESS_COMPLEX_FUNCTION(log)
HARNESS_COMPLEX_FUNCTION(log10)
HARNESS_COMPLEX_FUNCTION(sqrt)
HARNESS_COMPLEX_FUNCTION(sin)
HARNESS_COMPLEX_FUNCTION(cos)
HARNESS_COMPLEX_FUNCTION(tan)
HARNESS_COMPLEX_FUNCTION(asin)
HARNESS_COMPLEX_FUNCTION(acos)
HARNESS_COMPLEX_FUNCTION(atan)
HARNESS_COMPLEX_FUNCTION(sinh)
HARNESS_COMPLEX_FUNCTION(cosh)
HARNESS_COMPLEX_FUNCTION(tanh)
HARNESS_COMPLEX_FUNCTION(asinh)
HARNESS_COMPLEX_FUNCTION(acosh)
HARNESS_COMPLEX_FUNCTION(atanh)
#undef HARNESS_COMPLEX_FUNCTION

} // namespace thrust
#endif
