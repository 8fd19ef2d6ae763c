// Wide integers, packed numbers, functions, and ways to load and store, for test_arithmetic.py.
#include <cstdint>

typedef unsigned __int128 u128;
typedef __int128 s128;

__global__ void wide(u128* y, const u128* x) {
  int t = threadIdx.x;
  u128 a = x[2 * t], b = x[2 * t + 1];
  y[6 * t] = a + b;
  y[6 * t + 1] = a - b;
  y[6 * t + 2] = a * b;
  y[6 * t + 3] = b ? a / b : 0;
  y[6 * t + 4] = b ? a % b : 0;
  y[6 * t + 5] = (u128)((s128)a >> 3);
}

__global__ void intrinsics(int* y, const int* x) {
  int t = threadIdx.x, n = blockDim.x;
  int a = x[3 * t], b = x[3 * t + 1], c = x[3 * t + 2];
  int results[] = {
      __dp4a(a, b, c), (int)__dp4a((unsigned)a, (unsigned)b, (unsigned)c), __dp2a_lo(a, b, c),
      (int)__dp2a_hi((unsigned)a, (unsigned)b, (unsigned)c), (int)__vabsdiffu4(a, b),
      (int)__vsadu4(a, b), (int)__vadd2(a, b), (int)__vaddss4(a, b), (int)__vminu4(a, b),
      __viaddmax_s16x2(a, b, c), __vimax_s32_relu(a, b), (int)__fns(a, b & 31, (c & 7) - 3),
      (int)__vcmpgts2(a, b), (int)__vavgu4(a, b), __mul24(a, b), (int)__umul24(a, b),
      __hadd(a, b), (int)__brev(a), __ffs(a), (int)__byte_perm(a, b, c & 0xFFFF),
      (int)__funnelshift_rc(a, b, c & 63), (int)__sad(a, b, c), __mulhi(a, b)};
  for (int i = 0; i < sizeof results / sizeof *results; i++) y[i * n + t] = results[i];
}

__global__ void doubles(double* y, const double* x) {
  int t = threadIdx.x, n = blockDim.x;
  double v = x[t];
  double results[] = {sin(v), cos(v), exp(v), log(fabs(v)), pow(fabs(v), 0.3), 1 / v, sqrt(fabs(v)),
                      rsqrt(fabs(v)), cbrt(v), tanh(v), erf(v), fmod(v, 0.7), v / 3.1};
  for (int i = 0; i < sizeof results / sizeof *results; i++) y[i * n + t] = results[i];
}

__global__ void singles(float* y, const float* x) {
  int t = threadIdx.x, n = blockDim.x;
  float v = x[t];
  float results[] = {__sinf(v), __cosf(v), __expf(v), __logf(fabsf(v)), rsqrtf(fabsf(v)),
                     __fdividef(v, 3.1f), __frcp_rn(v), __tanhf(v), __fsqrt_rn(fabsf(v)),
                     __saturatef(v), __powf(fabsf(v), 1.5f), sinf(v * 1e5f), expf(v), tanhf(v)};
  for (int i = 0; i < sizeof results / sizeof *results; i++) y[i * n + t] = results[i];
}

__global__ void loads(int* y, const int* x, int* z) {
  int t = threadIdx.x, v, sum = 0;
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("ld.global.L2::cache_hint.u32 %0, [%1], %2;" : "=r"(v) : "l"(x + t), "l"(policy));
  sum += v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.u32 %0, [%1];" : "=r"(v) : "l"(x + t));
  sum += v;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(x + t));
  sum += v;
  asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(v) : "l"(x + t));
  sum += v;
  asm volatile("ld.weak.global.ca.u32 %0, [%1];" : "=r"(v) : "l"(x + t));
  sum += v;
  asm volatile("ldu.global.u32 %0, [%1];" : "=r"(v) : "l"(x + t));
  sum += v + __ldcg(x + t) + __ldcs(x + t) + __ldlu(x + t) + __ldcv(x + t) + __ldg(x + t);
  asm volatile("prefetch.global.L2 [%0];" ::"l"(x + t));
  asm volatile("st.global.L2::cache_hint.u32 [%0], %1, %2;" ::"l"(z + t), "r"(sum), "l"(policy));
  asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(z + 32 + t), "r"(sum));
  asm volatile("fence.acq_rel.gpu; fence.proxy.async; membar.sys;");
  asm volatile("griddepcontrol.wait; griddepcontrol.launch_dependents;");
  __stcg(z + 64 + t, sum);
  __stwt(z + 96 + t, sum);
  y[t] = sum;
}

__global__ void spaces(int* y, const int* x) {
  __shared__ int s;
  int local[2] = {(int)threadIdx.x, 1};
  s = 1;
  const void* all[3] = {x, &s, local};
  const void* p = all[threadIdx.x % 3];
  y[threadIdx.x] = __isGlobal(p) + 2 * __isShared(p) + 4 * __isLocal(p) + local[x[0] & 1] * 0;
}
