// Functions of cuda_fp16.h and cuda_bf16.h, for test_half.py.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
__device__ void scalars(T *out, const T *x, const T *y, const T *z) {
  int i = threadIdx.x;
  T a = x[i], b = y[i], c = z[i];
  T r[] = {__hadd(a, b), __hsub(a, b), __hmul(a, b), __hfma(a, b, c), __hfma_relu(a, b, c),
           __hfma_sat(a, b, c), __hmin(a, b), __hmax_nan(a, b), __hneg(a), __habs(a),
           __hlt(a, b) ? a : b, __hequ(a, b) ? a : b, __hdiv(a, b), hexp(c), hsqrt(__habs(a)),
           hrint(c)};
  for (int k = 0; k < 16; ++k) out[k * 32 + i] = r[k];
}

template <typename T>
__device__ void pairs(T *out, const T *x, const T *y, const T *z) {
  int i = threadIdx.x;
  T a = x[i], b = y[i], c = z[i];
  T r[] = {__hadd2(a, b), __hsub2(a, b), __hmul2(a, b), __hfma2(a, b, c), __hfma2_relu(a, b, c),
           __hfma2_sat(a, b, c), __hmin2(a, b), __hmax2_nan(a, b), __hneg2(a), __habs2(a),
           __hlt2(a, b), __hequ2(a, b)};
  for (int k = 0; k < 12; ++k) out[k * 32 + i] = r[k];
}

__global__ void half_scalars(__half *o, const __half *x, const __half *y, const __half *z) {
  scalars(o, x, y, z);
}
__global__ void bfloat_scalars(__nv_bfloat16 *o, const __nv_bfloat16 *x, const __nv_bfloat16 *y,
                               const __nv_bfloat16 *z) {
  scalars(o, x, y, z);
}
__global__ void half_pairs(__half2 *o, const __half2 *x, const __half2 *y, const __half2 *z) {
  pairs(o, x, y, z);
}
__global__ void bfloat_pairs(__nv_bfloat162 *o, const __nv_bfloat162 *x, const __nv_bfloat162 *y,
                             const __nv_bfloat162 *z) {
  pairs(o, x, y, z);
}
