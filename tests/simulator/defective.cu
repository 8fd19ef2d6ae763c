// Kernels with one mistake or none, for the simulator and compute-sanitizer. The arguments are n
// initialised floats, n floats that nothing wrote, and n. A wrong line ends in a comment with the
// name of the tool that must find it. The host program at the end runs one kernel.
#include <cstdio>
#include <cstring>

#include <cuda_runtime.h>

#define KERNEL(name) extern "C" __global__ void name(const float* in, float* out, int n)

KERNEL(store_past_end) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) out[i] = 1.0f;  // memcheck
}

KERNEL(load_before_start) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i - 8192];  // memcheck
}

KERNEL(misaligned_vector) {
  if (threadIdx.x > 0) return;
  float4 v = *(const float4*)(in + 1);  // memcheck
  out[0] = v.x + v.y + v.z + v.w;
}

KERNEL(null_pointer) {
  float* target = (float*)(unsigned long long)(n - 128);
  target[threadIdx.x] = in[threadIdx.x];  // memcheck
}

KERNEL(shared_past_end) {
  extern __shared__ float tile[];
  tile[threadIdx.x + 4096] = in[threadIdx.x];  // memcheck
  __syncthreads();
  out[threadIdx.x] = in[threadIdx.x];
}

KERNEL(wild_pointer) {
  const float* source = (const float*)((unsigned long long)in + ((unsigned long long)n << 40));
  out[threadIdx.x] = source[threadIdx.x];  // memcheck
}

KERNEL(reads_uninitialised) {
  int i = threadIdx.x;
  out[i] = out[i] + in[i];  // initcheck
}

KERNEL(reads_past_what_was_written) {
  int i = threadIdx.x;
  if (i < 32) out[i] = in[i];
  float next = i < 32 ? out[i + 32] : 0.0f;  // initcheck
  if (next == 12345.0f) out[i] = next;
}

KERNEL(missing_barrier) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];  // racecheck
  out[threadIdx.x] = tile[127 - threadIdx.x];
}

KERNEL(missing_second_barrier) {
  __shared__ float tile[128];
  float sum = 0.0f;
  for (int s = 0; s < 4; s++) {
    tile[threadIdx.x] = in[threadIdx.x] + s;  // racecheck
    __syncthreads();
    sum += tile[127 - threadIdx.x];
  }
  out[threadIdx.x] = sum;
}

KERNEL(two_writers) {
  __shared__ float total;
  total = in[threadIdx.x];  // racecheck
  __syncthreads();
  out[threadIdx.x] = total;
}

KERNEL(reduction_without_barrier) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  for (int step = 64; step > 0; step /= 2)
    if (threadIdx.x < step) tile[threadIdx.x] += tile[threadIdx.x + step];  // racecheck
  if (threadIdx.x == 0) out[0] = tile[0];
}

KERNEL(barrier_in_a_branch) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x % 2) __syncthreads();  // synccheck
  out[threadIdx.x] = tile[threadIdx.x];
}

KERNEL(caller_not_in_mask) {
  out[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x < 16) __syncwarp(0xffff0000u);  // synccheck
}

KERNEL(clean_copy) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}

KERNEL(clean_reduction) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  for (int step = 64; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) tile[threadIdx.x] += tile[threadIdx.x + step];
  }
  if (threadIdx.x == 0) out[0] = tile[0];
}

KERNEL(clean_reversal) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[127 - threadIdx.x];
}

// From here on, one function mostly has a mistake and its correction. The comment on a wrong line
// names the kernels that have the mistake. What compute-sanitizer does not check is marked.
#include <cuda_fp16.h>
#include <mma.h>

// ---- Barriers ------------------------------------------------------------------------------------

KERNEL(barriers_in_two_branches) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x < 64) {
    __syncthreads();  // synccheck
    out[threadIdx.x] = tile[127 - threadIdx.x];
  } else {
    tile[threadIdx.x] += 1.0f;
    __syncthreads();
  }
}

KERNEL(barriers_in_two_branches_of_a_warp) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x % 2 == 0) {
    tile[threadIdx.x] += 1.0f;
    __syncthreads();  // synccheck
  } else {
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
  }
}

KERNEL(barrier_in_an_uneven_loop) {  // simulator only: the others have ended when it is executed
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  for (int i = 0; i < 1 + threadIdx.x % 2; i++) {
    tile[threadIdx.x] += n;
    __syncthreads();  // synccheck
  }
  out[threadIdx.x] = tile[threadIdx.x];
}

// A barrier does not wait for threads that have returned.
KERNEL(clean_early_return) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x >= 100) return;
  __syncthreads();
  out[threadIdx.x] = tile[99 - threadIdx.x];
}

KERNEL(clean_return_of_warps) {
  __shared__ float tile[128];
  if (threadIdx.x >= 64) return;
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];
}

KERNEL(clean_return_after_a_store) {
  __shared__ float tile[128];
  if (threadIdx.x >= 100) {
    reinterpret_cast<char*>(out)[4 * threadIdx.x] = 0;
    return;
  }
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[99 - threadIdx.x];
}

// nvcc merges the two stores into one, so the threads that return skip the barrier to reach it.
KERNEL(return_after_the_same_store) {
  __shared__ float tile[128];
  if (threadIdx.x >= 100) {
    out[threadIdx.x] = 0.0f;
    return;
  }
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();  // synccheck
  out[threadIdx.x] = tile[99 - threadIdx.x];
}

// ---- Matrix instructions -------------------------------------------------------------------------

__device__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Each warp loads the eight rows of 16 bytes that another warp wrote.
template <bool waits>
__device__ void load_matrix(const float* in, float* out) {
  __shared__ alignas(16) float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];  // ldmatrix_*: racecheck
  if (waits) __syncthreads();
  unsigned row = shared_address(tile + (96 - threadIdx.x / 32 * 32) + threadIdx.x % 8 * 4), bits;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
               : "=r"(bits) : "r"(row) : "memory");
  out[threadIdx.x] = __uint_as_float(bits);
}

KERNEL(ldmatrix_without_barrier) { load_matrix<false>(in, out); }
KERNEL(clean_ldmatrix) { load_matrix<true>(in, out); }

template <bool waits>
__device__ void store_matrix(const float* in, float* out) {
  __shared__ alignas(16) float tile[128];
  unsigned row = shared_address(tile + threadIdx.x / 32 * 32 + threadIdx.x % 8 * 4);
  unsigned bits = __float_as_uint(in[threadIdx.x]);
  asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};"
               :: "r"(row), "r"(bits) : "memory");  // stmatrix_*: racecheck
  if (waits) __syncthreads();
  out[threadIdx.x] = tile[127 - threadIdx.x];
}

KERNEL(stmatrix_without_barrier) { store_matrix<false>(in, out); }  // simulator only: stmatrix
KERNEL(clean_stmatrix) { store_matrix<true>(in, out); }

// Every warp writes the sums, although only the first warp should, and all warps read them.
template <bool alone>
__device__ void multiply_by_wmma(const float* in, float* out) {
  using namespace nvcuda::wmma;
  __shared__ alignas(32) float sums[16 * 16];
  fragment<accumulator, 16, 16, 16, float> c;
  fill_fragment(c, in[threadIdx.x / 32]);
  if (!alone || threadIdx.x < 32)
    store_matrix_sync(sums, c, 16, mem_row_major);  // wmma_*: racecheck
  __syncthreads();
  out[threadIdx.x] = sums[threadIdx.x];
}

KERNEL(wmma_stores_of_all_warps) { multiply_by_wmma<false>(in, out); }
KERNEL(clean_wmma) { multiply_by_wmma<true>(in, out); }

struct Factors {
  alignas(128) __half a[64 * 16];
  __half b[8 * 16];
};

__device__ unsigned long long descriptor(const __half* matrix) {
  // Chunks of 16 bytes: the next chunk along k is 128 bytes later, the next eight lines 256 bytes.
  return shared_address(matrix) >> 4 | 128ull >> 4 << 16 | 256ull >> 4 << 32;
}

template <bool orders, bool waits>
__device__ void multiply_by_wgmma(const float* in, float* out) {
  __shared__ Factors factors;
  for (int i = threadIdx.x; i < 64 * 16; i += 128)
    factors.a[i] = __float2half(in[i % 128]);  // wgmma_without_barrier: racecheck
  factors.b[threadIdx.x] = __float2half(in[threadIdx.x]);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  if (orders) __syncthreads();
  float d[4] = {};
  unsigned long long a = descriptor(factors.a), b = descriptor(factors.b);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, "
               "1, 1, 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b) : "memory");
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  if (waits) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  __syncthreads();
  factors.a[threadIdx.x] = __float2half(0.0f);  // wgmma_operand_overwritten: racecheck
  if (!waits) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  out[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}

KERNEL(wgmma_without_barrier) {  // simulator only: what wgmma reads
  multiply_by_wgmma<false, true>(in, out);
}
KERNEL(wgmma_operand_overwritten) {  // simulator only: what wgmma reads
  multiply_by_wgmma<true, false>(in, out);
}
KERNEL(clean_wgmma) { multiply_by_wgmma<true, true>(in, out); }

// ---- cp.async ------------------------------------------------------------------------------------

__device__ void copy_word(float* to, const float* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
               :: "r"(shared_address(to)), "l"(from) : "memory");  // async_*: racecheck
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int left>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" :: "n"(left) : "memory");
}

template <bool waits, bool orders>
__device__ void copy_once(const float* in, float* out) {
  __shared__ float tile[128];
  copy_word(tile + threadIdx.x, in + threadIdx.x);
  if (waits) wait_for_copies<0>();
  if (orders) __syncthreads();
  out[threadIdx.x] = tile[127 - threadIdx.x];
}

KERNEL(async_copy_without_wait) { copy_once<false, true>(in, out); }
KERNEL(async_copy_without_barrier) { copy_once<true, false>(in, out); }
KERNEL(clean_async_copy) { copy_once<true, true>(in, out); }

template <bool orders>
__device__ void copy_in_turns(const float* in, float* out) {
  __shared__ float tile[128];
  float sum = 0.0f;
  for (int i = 0; i < 4; i++) {
    copy_word(tile + threadIdx.x, in + (threadIdx.x + i) % 128);
    wait_for_copies<0>();
    __syncthreads();
    sum += tile[127 - threadIdx.x];
    if (orders) __syncthreads();
  }
  out[threadIdx.x] = sum;
}

KERNEL(async_refill_without_barrier) { copy_in_turns<false>(in, out); }
KERNEL(clean_async_refill) { copy_in_turns<true>(in, out); }

// Two buffers: one is filled while the other is read.
template <int left>
__device__ void copy_ahead(const float* in, float* out) {
  __shared__ float tile[2][128];
  float sum = 0.0f;
  copy_word(&tile[0][threadIdx.x], in + threadIdx.x);
  for (int i = 0; i < 4; i++) {
    copy_word(&tile[(i + 1) % 2][threadIdx.x], in + (threadIdx.x + i) % 128);
    wait_for_copies<left>();
    __syncthreads();
    sum += tile[i % 2][127 - threadIdx.x];
    __syncthreads();
  }
  wait_for_copies<0>();
  out[threadIdx.x] = sum;
}

KERNEL(async_pipeline_waits_for_too_little) { copy_ahead<2>(in, out); }
KERNEL(clean_async_pipeline) { copy_ahead<1>(in, out); }

// ---- mbarriers and bulk copies -------------------------------------------------------------------

using Barrier = unsigned long long;

__device__ void init(Barrier* barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
               :: "r"(shared_address(barrier)), "r"(count) : "memory");  // mbarrier_*: racecheck
}
__device__ void arrive(Barrier* barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }"
               :: "r"(shared_address(barrier)) : "memory");
}
__device__ void wait(Barrier* barrier, int parity) {
  int done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
                 " selp.s32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
  } while (!done);
}
__device__ void copy_in(float* to, const float* from, Barrier* barrier) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;"
               :: "r"(shared_address(barrier)) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%0], [%1], 512, [%2];"
               :: "r"(shared_address(to)), "l"(from), "r"(shared_address(barrier)) : "memory");  // bulk_copy_*, bulk_refill_*: racecheck
}
__device__ void copy_out(float* to, const float* from) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;"
               :: "l"(to), "r"(shared_address(from)) : "memory");  // bulk_store_*: racecheck
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

enum Waiting { NOBODY, FIRST_WARP, FIRST_WARP_AND_BARRIER, ALL };

template <Waiting who>
__device__ void bulk_copy(const float* in, float* out) {
  __shared__ alignas(128) float tile[128];
  __shared__ Barrier full;
  if (threadIdx.x == 0) init(&full, 1);
  __syncthreads();
  if (threadIdx.x == 0) copy_in(tile, in, &full);
  __syncthreads();
  if (who == ALL || (who != NOBODY && threadIdx.x < 32)) wait(&full, 0);
  if (who == FIRST_WARP_AND_BARRIER) __syncthreads();
  out[threadIdx.x] = tile[127 - threadIdx.x];
  __syncthreads();
  wait(&full, 0);
}

KERNEL(bulk_copy_without_wait) { bulk_copy<NOBODY>(in, out); }
KERNEL(bulk_copy_awaited_by_one_warp) { bulk_copy<FIRST_WARP>(in, out); }
KERNEL(clean_bulk_copy) { bulk_copy<ALL>(in, out); }
KERNEL(clean_bulk_copy_awaited_by_one_warp) { bulk_copy<FIRST_WARP_AND_BARRIER>(in, out); }

// Thread 0 fills the tile twice. Before the second time, the readers must have arrived.
template <bool asks>
__device__ void bulk_refill(const float* in, float* out) {
  __shared__ alignas(128) float tile[128];
  __shared__ Barrier full[2], empty;
  if (threadIdx.x == 0) {
    init(&full[0], 1);
    init(&full[1], 1);
    init(&empty, 96);
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0) {
      copy_in(tile, in, &full[0]);
      wait(&full[0], 0);
      if (asks) wait(&empty, 0);
      copy_in(tile, in, &full[1]);
    }
    return;
  }
  wait(&full[0], 0);
  float sum = tile[threadIdx.x];
  arrive(&empty);
  wait(&full[1], 0);
  out[threadIdx.x] = sum + tile[threadIdx.x];
}

KERNEL(bulk_refill_without_empty) { bulk_refill<false>(in, out); }
KERNEL(clean_bulk_refill) { bulk_refill<true>(in, out); }

// Warp 0 writes two slots alternately, and warp 1 reads them.
template <bool asks>
__device__ void ring(const float* in, float* out) {
  __shared__ Barrier full[4], empty[4];
  __shared__ float slots[2][32];
  int lane = threadIdx.x % 32;
  if (threadIdx.x < 4) {
    init(&full[threadIdx.x], 32);
    init(&empty[threadIdx.x], 32);
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    for (int i = 0; i < 4; i++) {
      if (asks && i >= 2) wait(&empty[i - 2], 0);
      slots[i % 2][lane] = in[lane] + i;  // ring_without_empty: racecheck
      arrive(&full[i]);
    }
  } else if (threadIdx.x < 64) {
    float sum = 0.0f;
    for (int i = 0; i < 4; i++) {
      wait(&full[i], 0);
      sum += slots[i % 2][31 - lane];
      arrive(&empty[i]);
    }
    out[lane] = sum;
  }
}

KERNEL(ring_without_empty) { ring<false>(in, out); }
KERNEL(clean_ring) { ring<true>(in, out); }

template <bool orders>
__device__ void use_barrier(const float* in, float* out) {
  __shared__ Barrier barrier;
  if (threadIdx.x == 0) init(&barrier, 128);
  if (orders) __syncthreads();
  arrive(&barrier);
  out[threadIdx.x] = in[threadIdx.x];
}

KERNEL(mbarrier_used_before_its_init) { use_barrier<false>(in, out); }  // on a GPU also synccheck
KERNEL(clean_mbarrier) { use_barrier<true>(in, out); }

template <bool waits>
__device__ void store_and_reuse(const float* in, float* out) {
  __shared__ alignas(128) float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    copy_out(out, tile);
    if (waits) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
  __syncthreads();
  tile[threadIdx.x] = 0.0f;  // bulk_source_overwritten: racecheck
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

KERNEL(bulk_source_overwritten) { store_and_reuse<false>(in, out); }  // simulator only: bulk reads
KERNEL(clean_bulk_store) { store_and_reuse<true>(in, out); }

template <bool waits>
__device__ void store_and_load(const float* in, float* out) {
  __shared__ alignas(128) float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    copy_out(out, tile);
    if (waits) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    tile[0] = static_cast<volatile float*>(out)[1];
  }
}

KERNEL(bulk_store_read_too_early) {  // simulator only: global memory
  store_and_load<false>(in, out);
}
KERNEL(clean_bulk_store_and_load) { store_and_load<true>(in, out); }

#ifdef WITH_HOST
struct Entry {
  const char* name;
  void (*kernel)(const float*, float*, int);
};

#define ENTRY(name) {#name, name}

static const Entry entries[] = {
    ENTRY(store_past_end),
    ENTRY(load_before_start),
    ENTRY(misaligned_vector),
    ENTRY(null_pointer),
    ENTRY(shared_past_end),
    ENTRY(wild_pointer),
    ENTRY(reads_uninitialised),
    ENTRY(reads_past_what_was_written),
    ENTRY(missing_barrier),
    ENTRY(missing_second_barrier),
    ENTRY(two_writers),
    ENTRY(reduction_without_barrier),
    ENTRY(barrier_in_a_branch),
    ENTRY(caller_not_in_mask),
    ENTRY(clean_copy),
    ENTRY(clean_reduction),
    ENTRY(clean_reversal),
    ENTRY(barriers_in_two_branches),
    ENTRY(barriers_in_two_branches_of_a_warp),
    ENTRY(barrier_in_an_uneven_loop),
    ENTRY(clean_early_return),
    ENTRY(clean_return_of_warps),
    ENTRY(clean_return_after_a_store),
    ENTRY(return_after_the_same_store),
    ENTRY(ldmatrix_without_barrier),
    ENTRY(clean_ldmatrix),
    ENTRY(stmatrix_without_barrier),
    ENTRY(clean_stmatrix),
    ENTRY(wmma_stores_of_all_warps),
    ENTRY(clean_wmma),
    ENTRY(wgmma_without_barrier),
    ENTRY(wgmma_operand_overwritten),
    ENTRY(clean_wgmma),
    ENTRY(async_copy_without_wait),
    ENTRY(async_copy_without_barrier),
    ENTRY(clean_async_copy),
    ENTRY(async_refill_without_barrier),
    ENTRY(clean_async_refill),
    ENTRY(async_pipeline_waits_for_too_little),
    ENTRY(clean_async_pipeline),
    ENTRY(bulk_copy_without_wait),
    ENTRY(bulk_copy_awaited_by_one_warp),
    ENTRY(clean_bulk_copy),
    ENTRY(clean_bulk_copy_awaited_by_one_warp),
    ENTRY(bulk_refill_without_empty),
    ENTRY(clean_bulk_refill),
    ENTRY(ring_without_empty),
    ENTRY(clean_ring),
    ENTRY(mbarrier_used_before_its_init),
    ENTRY(clean_mbarrier),
    ENTRY(bulk_source_overwritten),
    ENTRY(clean_bulk_store),
    ENTRY(bulk_store_read_too_early),
    ENTRY(clean_bulk_store_and_load),
};

int main(int, char** arguments) {
  const int n = 128;
  float host[n], *in, *out;
  for (int i = 0; i < n; i++) host[i] = i;
  cudaMalloc(&in, sizeof host);
  cudaMalloc(&out, sizeof host);
  cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice);
  for (const Entry& entry : entries)
    if (!strcmp(entry.name, arguments[1])) {
      int blocks = !strcmp(entry.name, "store_past_end") ? 2 : 1;
      entry.kernel<<<blocks, n, 1024>>>(in, out, n);
      printf("%s: %s\n", entry.name, cudaGetErrorString(cudaDeviceSynchronize()));
    }
  return 0;
}
#endif
