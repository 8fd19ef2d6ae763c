// wmma, for test_wmma.py: one warp computes D = A B + C with every layout.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

template <int M, int N, int K, typename T, typename Storage, typename Sum, typename LA, typename LB>
__device__ void multiply(Sum *d, const Storage *a, const Storage *b, const Sum *c) {
  wmma::fragment<wmma::matrix_a, M, N, K, T, LA> fa;
  wmma::fragment<wmma::matrix_b, M, N, K, T, LB> fb;
  wmma::fragment<wmma::accumulator, M, N, K, Sum> fc;
  constexpr bool a_rows = std::is_same<LA, wmma::row_major>::value;
  constexpr bool b_rows = std::is_same<LB, wmma::row_major>::value;
  wmma::load_matrix_sync(fa, a, a_rows ? K : M);
  wmma::load_matrix_sync(fb, b, b_rows ? N : K);
  wmma::load_matrix_sync(fc, c, a_rows ? N : M, a_rows ? wmma::mem_row_major : wmma::mem_col_major);
  wmma::mma_sync(fc, fa, fb, fc);
  for (int i = 0; i < fc.num_elements; ++i) fc.x[i] = fc.x[i] * static_cast<Sum>(2);
  wmma::store_matrix_sync(d, fc, N, wmma::mem_row_major);
}

#define KERNEL(NAME, M, N, K, T, STORAGE, SUM, LA, LB)                                              \
  __global__ void NAME(SUM *d, const STORAGE *a, const STORAGE *b, const SUM *c) {                 \
    multiply<M, N, K, T, STORAGE, SUM, wmma::LA, wmma::LB>(d, a, b, c);                            \
  }

KERNEL(f16_rc, 16, 16, 16, __half, __half, float, row_major, col_major)
KERNEL(f16_cr, 16, 16, 16, __half, __half, float, col_major, row_major)
KERNEL(f16_tall, 32, 8, 16, __half, __half, float, row_major, row_major)
KERNEL(f16_wide, 8, 32, 16, __half, __half, float, col_major, col_major)
KERNEL(f16_half, 16, 16, 16, __half, __half, __half, row_major, row_major)
KERNEL(bf16_rr, 16, 16, 16, __nv_bfloat16, __nv_bfloat16, float, row_major, row_major)
KERNEL(bf16_wide, 8, 32, 16, __nv_bfloat16, __nv_bfloat16, float, row_major, col_major)
KERNEL(tf32_rc, 16, 16, 8, wmma::precision::tf32, float, float, row_major, col_major)
KERNEL(tf32_cr, 16, 16, 8, wmma::precision::tf32, float, float, col_major, row_major)
KERNEL(s8_rc, 16, 16, 16, signed char, signed char, int, row_major, col_major)
KERNEL(u8_cr, 16, 16, 16, unsigned char, unsigned char, int, col_major, row_major)
KERNEL(s8_tall, 32, 8, 16, signed char, signed char, int, row_major, col_major)
KERNEL(f64_rc, 8, 8, 4, double, double, double, row_major, col_major)
