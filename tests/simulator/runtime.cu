// Prints what the CUDA runtime returns, one line for each call. The simulator loads this program as
// a library. A GPU runs it by itself:
//   nvcc -arch=native tests/simulator/runtime.cu -o runtime && ./runtime | diff - tests/simulator/runtime.txt
#include <cooperative_groups.h>
#include <cuda_runtime.h>
#include <cudaTypedefs.h>

#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

// ---- kernels --------------------------------------------------------------------------------------

__device__ int counters[4] = {1, 2, 3, 4};
__constant__ float factors[8];

__global__ void add(int* y, int value) { y[threadIdx.x] += value; }
__global__ void scale(float* y) { y[threadIdx.x] = factors[threadIdx.x] * counters[threadIdx.x % 4]; }
__global__ void __launch_bounds__(128) bounded(int* y) { y[threadIdx.x] = 1; }

__global__ void with_static(int* y) {
  __shared__ int room[1024];
  extern __shared__ int more[];
  room[threadIdx.x] = more[threadIdx.x] = y[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = room[threadIdx.x ^ 1] + more[threadIdx.x];
}

__global__ void with_dynamic(int* y, int last) {
  extern __shared__ int more[];
  more[last] = 7;
  *y = more[last];
}

// All values are needed at the end, so each thread takes more than 64 registers.
__global__ void many_registers(float* y, int n) {
  float values[100];
#pragma unroll
  for (int i = 0; i < 100; ++i) values[i] = y[i * n];
  for (int round = 0; round < n; ++round)
#pragma unroll
    for (int i = 0; i < 100; ++i) values[i] = values[i] * values[(i + 37) % 100] + round;
#pragma unroll
  for (int i = 0; i < 100; ++i) y[i * n + threadIdx.x] = values[i];
}

__global__ void rotate(int* y, int* x) {
  auto grid = cooperative_groups::this_grid();
  int i = grid.thread_rank(), n = grid.size();
  x[i] = i;
  grid.sync();
  y[i] = x[(i + 1) % n];
}

__global__ void misaligned(char* y) { *reinterpret_cast<int*>(y + 1) = 1; }
__global__ void asserts(int n) { assert(n > 0); }
__global__ void traps() { __trap(); }

// ---- reporting ------------------------------------------------------------------------------------

static void say(const char* what, cudaError_t error) {
  printf("%s: %s\n", what, cudaGetErrorName(error));
}
static void say(const char* what, long value) { printf("%s: %ld\n", what, value); }

#define TRY(call) say(#call, call)
#define SHOW(expression) say(#expression, static_cast<long>(expression))

static int* device_ints(int count) {
  int* pointer = nullptr;
  cudaMalloc(&pointer, count * sizeof(int));
  cudaMemset(pointer, 0, count * sizeof(int));
  return pointer;
}

static int read(const int* pointer) {
  int value = -1;
  cudaMemcpy(&value, pointer, sizeof value, cudaMemcpyDeviceToHost);
  return value;
}

// ---- scenarios ------------------------------------------------------------------------------------

static void memory() {
  int host[4] = {1, 2, 3, 4}, back[4] = {};
  int *a, *b;
  TRY(cudaMalloc(&a, 0));
  SHOW(a == nullptr);
  TRY(cudaMalloc(&a, sizeof host));
  TRY(cudaMalloc(&b, sizeof host));
  TRY(cudaMemcpy(a, host, sizeof host, cudaMemcpyHostToDevice));
  TRY(cudaMemcpyAsync(b, a, sizeof host, cudaMemcpyDeviceToDevice, 0));
  add<<<1, 4>>>(b, 0);
  TRY(cudaMemcpy(back, b, sizeof host, cudaMemcpyDefault));
  SHOW(memcmp(host, back, sizeof host));
  TRY(cudaMemcpy(back, host, 8, cudaMemcpyHostToHost));
  TRY(cudaMemcpy(back, b, 0, cudaMemcpyDeviceToHost));
  TRY(cudaMemcpy(back, b, sizeof host + 4, cudaMemcpyDeviceToHost));
  TRY(cudaMemcpy(host, back, 4, cudaMemcpyHostToDevice));
  TRY(cudaMemcpy(a, host, 4, (cudaMemcpyKind)7));
  TRY(cudaMemset(a, 1, 8));
  TRY(cudaMemsetAsync(a + 2, 2, 8, 0));
  SHOW(read(a) == 0x01010101 && read(a + 3) == 0x02020202);
  TRY(cudaMemset(a, 0, sizeof host + 4));
  TRY(cudaMemcpyPeer(b, 0, a, 0, 8));
  TRY(cudaFree(b));
  TRY(cudaFree(b));
  TRY(cudaFree(host));
  TRY(cudaFree(nullptr));
  TRY(cudaMallocAsync(&b, 64, 0));
  TRY(cudaFreeAsync(b, 0));
  size_t free_bytes, total;
  TRY(cudaMemGetInfo(&free_bytes, &total));
  SHOW(free_bytes < total);
  TRY(cudaMalloc(&b, total + 1));
  TRY(cudaPeekAtLastError());
  TRY(cudaGetLastError());
  TRY(cudaGetLastError());
}

static void pitched() {
  char *a, host[3][5], back[3][5] = {};
  size_t pitch = 0;
  for (int i = 0; i < 15; ++i) host[i / 5][i % 5] = static_cast<char>(i);
  TRY(cudaMallocPitch(&a, &pitch, 5, 3));
  SHOW(pitch);
  TRY(cudaMemcpy2D(a, pitch, host, 5, 5, 3, cudaMemcpyHostToDevice));
  TRY(cudaMemset2D(a + pitch, pitch, 9, 2, 2));
  TRY(cudaMemcpy2DAsync(back, 5, a, pitch, 5, 3, cudaMemcpyDeviceToHost, 0));
  TRY(cudaDeviceSynchronize());
  SHOW(back[0][4]);
  SHOW(back[1][1]);
  SHOW(back[2][2]);
  TRY(cudaMemcpy2D(back, 4, a, pitch, 5, 3, cudaMemcpyDeviceToHost));
}

static void host_memory() {
  int *pinned, *mapped, *managed, *plain, on_stack = 0, *a = device_ints(1);
  cudaPointerAttributes seen;
  TRY(cudaMallocHost(&pinned, 256));
  *pinned = 40;
  TRY(cudaHostGetDevicePointer(&mapped, pinned, 0));
  add<<<1, 1>>>(mapped, 2);
  TRY(cudaDeviceSynchronize());
  SHOW(*pinned);
  TRY(cudaMemcpyAsync(a, pinned, 4, cudaMemcpyHostToDevice, 0));
  TRY(cudaMallocManaged(&managed, 256));
  *managed = 5;
  add<<<1, 1>>>(managed, 3);
  TRY(cudaDeviceSynchronize());
  SHOW(*managed);
  TRY(cudaMemcpy(managed, a, 4, cudaMemcpyDefault));
  SHOW(*managed);
  TRY(cudaHostAlloc(&plain, 256, cudaHostAllocMapped));
  TRY(cudaPointerGetAttributes(&seen, pinned));
  SHOW(seen.type == cudaMemoryTypeHost);
  TRY(cudaPointerGetAttributes(&seen, managed));
  SHOW(seen.type == cudaMemoryTypeManaged);
  TRY(cudaPointerGetAttributes(&seen, a));
  SHOW(seen.type == cudaMemoryTypeDevice && seen.device == 0 && seen.devicePointer == a);
  TRY(cudaPointerGetAttributes(&seen, &on_stack));
  SHOW(seen.type == cudaMemoryTypeUnregistered);
  TRY(cudaFreeHost(a));
  TRY(cudaFreeHost(pinned));
  TRY(cudaFreeHost(plain));
  TRY(cudaFree(managed));
}

static void symbols() {
  size_t bytes = 0;
  void* address = nullptr;
  float host[8] = {1, 2, 3, 4, 5, 6, 7, 8}, *y;
  int more[2] = {10, 20}, one = 0, plain = 0;
  TRY(cudaGetSymbolSize(&bytes, factors));
  SHOW(bytes);
  TRY(cudaMemcpyToSymbol(factors, host, sizeof host));
  TRY(cudaMemcpyToSymbolAsync(counters, more, 8, 8, cudaMemcpyHostToDevice, 0));
  TRY(cudaGetSymbolAddress(&address, counters));
  TRY(cudaMemset(address, 0, 4));
  TRY(cudaMemcpyFromSymbol(&one, counters, 4, 12));
  SHOW(one);
  TRY(cudaMemcpyFromSymbolAsync(&one, counters, 4, 4, cudaMemcpyDeviceToHost, 0));
  SHOW(one);
  TRY(cudaMemcpyToSymbol(factors, host, 8, 28));
  TRY(cudaMemcpyToSymbol(plain, host, 4));
  cudaMalloc(&y, 32);
  scale<<<1, 8>>>(y);
  TRY(cudaMemcpy(host, y, 32, cudaMemcpyDeviceToHost));
  SHOW(host[0]);
  SHOW(host[5]);
  SHOW(host[7]);
}

static void add_ten(void* value) { *static_cast<int*>(value) += 10; }

static void streams() {
  cudaStream_t stream, low;
  cudaEvent_t event;
  unsigned flags;
  int priority, least, greatest, value = 1;
  TRY(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  SHOW(least);
  SHOW(greatest);
  TRY(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -100));
  TRY(cudaStreamGetPriority(stream, &priority));
  SHOW(priority);
  TRY(cudaStreamGetFlags(stream, &flags));
  SHOW(flags);
  TRY(cudaStreamCreate(&low));
  TRY(cudaStreamGetFlags(low, &flags));
  SHOW(flags);
  TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  TRY(cudaEventRecord(event, stream));
  TRY(cudaStreamWaitEvent(low, event, 0));
  TRY(cudaLaunchHostFunc(low, add_ten, &value));
  TRY(cudaStreamSynchronize(low));
  SHOW(value);
  TRY(cudaStreamQuery(stream));
  TRY(cudaStreamQuery(cudaStreamPerThread));
  TRY(cudaStreamDestroy(stream));
  TRY(cudaEventDestroy(event));
}

static void events() {
  cudaEvent_t start, end, untimed;
  float milliseconds = -1;
  TRY(cudaEventCreate(&start));
  TRY(cudaEventCreate(&end));
  TRY(cudaEventQuery(start));
  TRY(cudaEventElapsedTime(&milliseconds, start, end));
  TRY(cudaEventRecord(start));
  TRY(cudaEventRecord(end, 0));
  TRY(cudaEventSynchronize(end));
  TRY(cudaEventQuery(end));
  TRY(cudaEventElapsedTime(&milliseconds, start, end));
  SHOW(milliseconds >= 0);
  TRY(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  TRY(cudaEventRecord(untimed));
  TRY(cudaEventSynchronize(untimed));
  TRY(cudaEventElapsedTime(&milliseconds, start, untimed));
  TRY(cudaEventCreateWithFlags(&untimed, 64));
}

static void device() {
  int count, current, value;
  cudaDeviceProp properties;
  size_t limit;
  TRY(cudaGetDeviceCount(&count));
  SHOW(count);
  TRY(cudaSetDevice(0));
  TRY(cudaGetDevice(&current));
  TRY(cudaSetDevice(count));
  TRY(cudaGetDeviceProperties(&properties, 0));
  SHOW(properties.sharedMemPerBlockOptin);
  SHOW(properties.reservedSharedMemPerBlock);
  SHOW(properties.multiProcessorCount);
  SHOW(properties.maxGridSize[1]);
  SHOW(properties.l2CacheSize);
  SHOW(properties.memoryBusWidth);
  TRY(cudaGetDeviceProperties(&properties, count));
  TRY(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  SHOW(value);
  TRY(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 0));
  SHOW(value);
  TRY(cudaDeviceGetAttribute(&value, cudaDevAttrMaxPersistingL2CacheSize, 0));
  SHOW(value);
  TRY(cudaDeviceGetLimit(&limit, cudaLimitStackSize));
  SHOW(limit);
  TRY(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 1 << 21));
  TRY(cudaDeviceGetLimit(&limit, cudaLimitPrintfFifoSize));
  SHOW(limit);
  TRY(cudaRuntimeGetVersion(&value));
  SHOW(value == CUDART_VERSION);
}

static int throws() { throw 1; }

static void launches() {
  int* y = device_ints(2048);
  int value = 3;
  void* arguments[] = {&y, &value};
  add<<<1, 1025>>>(y, 1);
  TRY(cudaPeekAtLastError());
  TRY(cudaPeekAtLastError());
  TRY(cudaGetLastError());
  TRY(cudaGetLastError());
#define LAUNCH(...) ((__VA_ARGS__), cudaGetLastError())
  TRY(LAUNCH(add<<<0, 32>>>(y, 1)));
  TRY(LAUNCH(add<<<1, 0>>>(y, 1)));
  TRY(LAUNCH(add<<<1, dim3(1, 1, 65)>>>(y, 1)));
  TRY(LAUNCH(add<<<dim3(1, 65536), 1>>>(y, 1)));
  TRY(LAUNCH(add<<<dim3(1, 1, 65536), 1>>>(y, 1)));
  TRY(LAUNCH(add<<<1, 1, 49153>>>(y, 1)));
  TRY(LAUNCH(add<<<1, 1, 49152>>>(y, 1)));
  TRY(LAUNCH(with_static<<<1, 32, 45057>>>(y)));
  TRY(LAUNCH(with_static<<<1, 32, 45056>>>(y)));
  TRY(LAUNCH(bounded<<<1, 129>>>(y)));
  TRY(LAUNCH(bounded<<<1, 128>>>(y)));
  TRY(LAUNCH(many_registers<<<1, 1024>>>((float*)y, 0)));
  // Each leaves a launch configuration behind, which the next launch must ignore.
  for (int i = 0; i < 20; ++i) {
    try {
      add<<<1, 1>>>(y, throws());
    } catch (int) {
    }
  }
  TRY(LAUNCH(add<<<1, 32>>>(y, 4)));
  SHOW(read(y + 31));
  TRY(cudaLaunchKernel((void*)add, dim3(1), dim3(32), arguments, 0, 0));
  SHOW(read(y + 31));
  TRY(cudaLaunchKernel((void*)&value, dim3(1), dim3(32), arguments, 0, 0));
  TRY(cudaDeviceSynchronize());
}

static void shared_memory() {
  int* y = device_ints(1);
  auto most = cudaFuncAttributeMaxDynamicSharedMemorySize;
  TRY(cudaFuncSetAttribute(with_dynamic, most, 100 << 10));
  TRY(LAUNCH(with_dynamic<<<1, 1, 100 << 10>>>(y, (25 << 10) - 1)));
  SHOW(read(y));
  TRY(LAUNCH(with_dynamic<<<1, 1, (100 << 10) + 1>>>(y, 0)));
  TRY(cudaFuncSetAttribute(with_dynamic, most, 227 << 10));
  TRY(cudaFuncSetAttribute(with_dynamic, most, (227 << 10) + 1));
  TRY(cudaFuncSetAttribute(with_static, most, 223 << 10));
  TRY(cudaFuncSetAttribute(with_static, most, (223 << 10) + 1));
  TRY(cudaFuncSetAttribute(with_dynamic, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
  TRY(cudaFuncSetCacheConfig(with_dynamic, cudaFuncCachePreferShared));
}

static void extended_launches() {
  int *y = device_ints(1024), *x = device_ints(1024);
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {1, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1);
  config.blockDim = dim3(64);
  config.attrs = attributes;
  config.numAttrs = 2;
  TRY(cudaLaunchKernelEx(&config, add, y, 5));
  SHOW(read(y + 63));
  attributes[0].id = cudaLaunchAttributeCooperative;
  attributes[0].val.cooperative = 1;
  config.numAttrs = 1;
  config.gridDim = dim3(2);
  TRY(cudaLaunchKernelEx(&config, rotate, y, x));
  SHOW(read(y + 127));
  config.blockDim = dim3(1025);
  TRY(cudaLaunchKernelEx(&config, rotate, y, x));
}

static void cooperative() {
  int *y = device_ints(1024), *x = device_ints(1024);
  void* arguments[] = {&y, &x};
  TRY(cudaLaunchCooperativeKernel((void*)rotate, dim3(8), dim3(128), arguments, 0, 0));
  SHOW(read(y));
  SHOW(read(y + 1023));
  int blocks = 0, processors = 0;
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
  TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, rotate, 1024, 0));
  SHOW(blocks);
  dim3 grid(blocks * processors + 1);
  TRY(cudaLaunchCooperativeKernel((void*)rotate, grid, dim3(1024), arguments, 0, 0));
  TRY(cudaGetLastError());
}

static void occupancy() {
  int blocks = -1, grid = -1, threads = -1;
  cudaFuncAttributes seen;
  TRY(cudaFuncGetAttributes(&seen, with_static));
  SHOW(seen.sharedSizeBytes);
  SHOW(seen.maxDynamicSharedSizeBytes);
  SHOW(seen.maxThreadsPerBlock);
  SHOW(seen.constSizeBytes);
  SHOW(seen.binaryVersion);
  SHOW(seen.numRegs > 0 && seen.numRegs <= 32);
  TRY(cudaFuncGetAttributes(&seen, bounded));
  SHOW(seen.maxThreadsPerBlock);
  TRY(cudaFuncGetAttributes(&seen, many_registers));
  SHOW(seen.maxThreadsPerBlock < 640);
  TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 256, 0));
  SHOW(blocks);
  TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 32, 0));
  SHOW(blocks);
  TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, with_static, 256, 40000));
  SHOW(blocks);
  TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 256, 100000));
  SHOW(blocks);
  TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 0, 0));
  TRY(cudaOccupancyMaxPotentialBlockSize(&grid, &threads, add, 0, 0));
  SHOW(grid);
  SHOW(threads);
  TRY(cudaOccupancyMaxPotentialBlockSize(&grid, &threads, bounded, 0, 0));
  SHOW(threads);
}

// After any of these, CUDA requires a new process.
static void after_break() {
  int* y = nullptr;
  cudaEvent_t event;
  int count = 0;
  TRY(cudaDeviceSynchronize());
  TRY(cudaGetLastError());
  TRY(cudaGetLastError());
  TRY(cudaMalloc(&y, 4));
  TRY(cudaStreamSynchronize(0));
  TRY(cudaEventCreate(&event));
  TRY(LAUNCH(add<<<1, 1>>>(y, 1)));
  TRY(cudaGetDeviceCount(&count));
}

static void broken_by_null_pointer() {
  add<<<1, 1>>>(nullptr, 1);
  after_break();
}

static void broken_by_misaligned_address() {
  misaligned<<<1, 1>>>((char*)device_ints(4));
  after_break();
}

static void broken_by_assert() {
  asserts<<<1, 1>>>(0);
  after_break();
}

static void broken_by_trap() {
  traps<<<1, 1>>>();
  after_break();
}

static const struct {
  const char* name;
  void (*run)();
} scenarios[] = {
#define SCENARIO(name) {#name, name}
    SCENARIO(memory),         SCENARIO(pitched),       SCENARIO(host_memory),
    SCENARIO(symbols),        SCENARIO(streams),       SCENARIO(events),
    SCENARIO(device),         SCENARIO(launches),      SCENARIO(occupancy),
    SCENARIO(shared_memory),  SCENARIO(extended_launches), SCENARIO(cooperative),
    SCENARIO(broken_by_null_pointer), SCENARIO(broken_by_misaligned_address),
    SCENARIO(broken_by_assert), SCENARIO(broken_by_trap),
};

extern "C" int run(const char* name) {
  for (const auto& scenario : scenarios)
    if (!strcmp(name, scenario.name)) {
      printf("[%s]\n", name);
      scenario.run();
      fflush(stdout);
      return 0;
    }
  return 1;
}

// ---- missing features, and behaviour that CUDA leaves undefined: for the simulator alone -----------

extern "C" int launch_clusters() {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {2, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(2);
  config.blockDim = dim3(64);
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, traps);
}

// Change pinned memory behind an asynchronous copy from it. `waiting` names what comes in between: 0
// nothing, 1 a wait for another stream, 2 a copy of other bytes, 3 a wait for an event that was
// recorded before the copy. The other numbers are of correct programs: 4 a wait for the stream, 5
// for an event, 6 for the device, 7 for a stream that waits for it, 8 a flag behind the copy, 9 a
// copy back to the same memory, 10 a change of other bytes, 11 the same bytes again, 12 cudaMemcpy().
extern "C" int change_pinned(int waiting) {
  int *host, *flag, *y = device_ints(2048);
  cudaStream_t stream, other;
  cudaEvent_t event, early;
  cudaMallocHost(&host, 8192);
  cudaMallocHost(&flag, 4);
  for (int i = 0; i < 2048; ++i) host[i] = i;
  *flag = 0;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  cudaEventCreate(&event);
  cudaEventCreate(&early);
  cudaEventRecord(early, stream);
  if (waiting == 12) cudaMemcpy(y, host, 4096, cudaMemcpyHostToDevice);
  else cudaMemcpyAsync(y, host, 4096, cudaMemcpyHostToDevice, stream);
  cudaEventRecord(event, stream);
  if (waiting == 1) cudaStreamSynchronize(other);
  if (waiting == 2) cudaMemcpyAsync(y + 1024, host + 1024, 4096, cudaMemcpyHostToDevice, stream);
  if (waiting == 3) cudaEventSynchronize(early);
  if (waiting == 4) cudaStreamSynchronize(stream);
  if (waiting == 5) cudaEventSynchronize(event);
  if (waiting == 6) cudaDeviceSynchronize();
  if (waiting == 7) cudaStreamWaitEvent(other, event, 0), cudaStreamSynchronize(other);
  if (waiting == 8) {
    add<<<1, 1, 0, stream>>>(flag, 1);
    if (*(volatile int*)flag > 1) return -1;  // a GPU's host would wait here
  }
  if (waiting == 9) cudaMemcpyAsync(host, y + 1, 2048, cudaMemcpyDeviceToHost, stream);
  else host[waiting == 10 ? 1024 : 1000] = waiting == 11 ? 1000 : -1;
  add<<<1, 64, 0, stream>>>(y, 1);
  cudaError_t error = cudaDeviceSynchronize();
  cudaFreeHost(host);
  cudaFreeHost(flag);
  return error;
}

__device__ int deep(int n) {
  return n < 2 ? n : n * 3 + deep(n - 1) * n;  // the recursion
}

__global__ void recurse(int* y, int n) {
  for (int i = 0; i < 3; ++i) y[threadIdx.x] += deep(n - i);
}

// Let `depth` calls of a function be active at once. `limit` is the size of the stack, or 0 for the
// default one.
extern "C" int recurse_deeply(int depth, int limit) {
  if (limit && cudaDeviceSetLimit(cudaLimitStackSize, limit)) return -1;
  recurse<<<1, 32>>>(device_ints(32), depth);
  return cudaDeviceSynchronize();
}

__global__ void add_after(int* y, int value) {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  y[threadIdx.x] += value;
}

// Launch a kernel that may overlap with the one before it. `waiting` names what waits for that one:
// 0 for nothing, 1 for the kernel itself, 2 for the host, 3 for a copy in between.
extern "C" int launch_early(int waiting) {
  int* y = device_ints(64);
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1);
  config.blockDim = dim3(64);
  config.attrs = &attribute;
  config.numAttrs = 1;
  add<<<1, 64>>>(y, 1);
  if (waiting == 2) cudaDeviceSynchronize();
  if (waiting == 3) cudaMemsetAsync(y, 0, 4);
  return cudaLaunchKernelEx(&config, waiting == 1 ? add_after : add, y, 1);
}

extern "C" int ask_driver(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status;
#if CUDART_VERSION >= 12050
  cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &status);
#else
  cudaError_t error = cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &status);
#endif
  return error ? error : function ? 0 : 1000 + status;
}

extern "C" int use_destroyed_stream() {
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  cudaStreamDestroy(stream);
  add<<<1, 1, 0, stream>>>(nullptr, 1);
  return cudaGetLastError();
}

int main(int count, char** words) {
  if (count > 1) return run(words[1]);
  for (const auto& scenario : scenarios)
    if (system((std::string(words[0]) + " " + scenario.name + " 2>/dev/null").c_str())) return 1;
}
