/* The part of the CUDA runtime that a submission's host code calls, without a GPU.
 *
 * Device memory comes from arena.c. Everything runs at once and in program order, so that every
 * stream is always drained and every event has happened. Kernel launches and the addresses of
 * device variables are answered by the machine, through the two callbacks of sim_connect().
 *
 * A runtime call that is not here stays an undefined symbol, which the loader names when the
 * submission's extension is imported.
 */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arena.h"
#include "cudart.h"

/* ---- what the machine tells us --------------------------------------------------------------- */

static sim_launch_callback launch_callback;
static sim_symbol_callback symbol_callback;
static struct cudaDeviceProp device_properties;

void sim_connect(sim_launch_callback launch, sim_symbol_callback symbol) {
  launch_callback = launch;
  symbol_callback = symbol;
}

void sim_set_device(const struct sim_device *device) {
  struct cudaDeviceProp *p = &device_properties;
  memset(p, 0, sizeof *p);
  snprintf(p->name, sizeof p->name, "%s", device->name);
  p->major = device->major;
  p->minor = device->minor;
  p->totalGlobalMem = device->total_memory;
  p->multiProcessorCount = device->multiprocessors;
  p->sharedMemPerBlock = device->shared_per_block;
  p->sharedMemPerBlockOptin = device->shared_per_block_optin;
  p->sharedMemPerMultiprocessor = device->shared_per_multiprocessor;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsPerMultiProcessor = 2048;
  p->maxBlocksPerMultiProcessor = 32;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->totalConstMem = 65536;
  p->memPitch = 2147483647;
  p->textureAlignment = 512;
  p->l2CacheSize = device->l2_bytes;
  p->memoryBusWidth = 5120;
  p->asyncEngineCount = 3;
  p->concurrentKernels = 1;
  p->unifiedAddressing = 1;
  p->cooperativeLaunch = 1;
}

/* ---- errors ------------------------------------------------------------------------------------ */

static __thread cudaError_t last_error = cudaSuccess;

static cudaError_t report(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t cudaGetLastError(void) {
  cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError(void) { return last_error; }

struct error_text {
  cudaError_t error;
  const char *name;
  const char *text;
};

static const struct error_text error_texts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidSymbol, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {cudaErrorInvalidDevicePointer, "cudaErrorInvalidDevicePointer", "invalid device pointer"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
};

static const struct error_text *find_error(cudaError_t error) {
  for (size_t i = 0; i < sizeof error_texts / sizeof *error_texts; ++i)
    if (error_texts[i].error == error) return &error_texts[i];
  return NULL;
}

const char *cudaGetErrorString(cudaError_t error) {
  const struct error_text *found = find_error(error);
  return found ? found->text : "unrecognized error code";
}

const char *cudaGetErrorName(cudaError_t error) {
  const struct error_text *found = find_error(error);
  return found ? found->name : "unrecognized error code";
}

/* ---- kernels and device variables, as nvcc's host code registers them --------------------------- */

struct module {
  const void *image; /* the fat binary: PTX as text, since it was compiled with -no-compress */
  int live;
};

struct symbol {
  struct module *module;
  const void *host; /* the host's stand-in: a function pointer or the shadow variable's address */
  const char *name;
  size_t size;
  size_t dynamic_shared_limit;
};

enum { default_dynamic_shared = 48 * 1024 };

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct symbol *symbols;
static size_t symbol_count, symbol_capacity;

static void add_symbol(void **handle, const void *host, const char *name, size_t size) {
  pthread_mutex_lock(&registry_lock);
  if (symbol_count == symbol_capacity) {
    symbol_capacity = symbol_capacity ? 2 * symbol_capacity : 64;
    symbols = realloc(symbols, symbol_capacity * sizeof *symbols);
    if (!symbols) abort();
  }
  symbols[symbol_count++] =
      (struct symbol){(struct module *)handle, host, name, size, default_dynamic_shared};
  pthread_mutex_unlock(&registry_lock);
}

static int find_symbol(const void *host, struct symbol *found) {
  int hit = 0;
  pthread_mutex_lock(&registry_lock);
  for (size_t i = symbol_count; i-- > 0;)
    if (symbols[i].host == host && symbols[i].module->live) {
      *found = symbols[i];
      hit = 1;
      break;
    }
  pthread_mutex_unlock(&registry_lock);
  return hit;
}

void **__cudaRegisterFatBinary(void *fat_cubin) {
  struct wrapper {
    int magic, version;
    const void *image;
    void *unused;
  } *wrapper = fat_cubin;
  struct module *module = malloc(sizeof *module);
  if (!module) abort();
  module->image = wrapper->image;
  module->live = 1;
  return (void **)module;
}

void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }

/* The record stays: an image may be unloaded while the machine still knows its address. */
void __cudaUnregisterFatBinary(void **handle) { ((struct module *)handle)->live = 0; }

char __cudaInitModule(void **handle) {
  (void)handle;
  return 1;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int thread_limit, void *tid, void *bid, void *block, void *grid,
                            int *warp_size) {
  (void)device, (void)thread_limit, (void)tid, (void)bid, (void)block, (void)grid, (void)warp_size;
  add_symbol(handle, host, name, 0);
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external,
                       size_t size, int constant, int global) {
  (void)device, (void)external, (void)constant, (void)global;
  add_symbol(handle, host, name, size);
}

/* ---- launching ---------------------------------------------------------------------------------- */

struct configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};

/* A launch inside an argument of a launch nests; eight levels are more than nvcc produces. */
static __thread struct configuration configurations[8];
static __thread int configuration_depth;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  if (configuration_depth == 8) return 1;
  configurations[configuration_depth++] = (struct configuration){grid, block, shared, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
  if (configuration_depth == 0) return report(cudaErrorInvalidConfiguration);
  struct configuration c = configurations[--configuration_depth];
  *grid = c.grid, *block = c.block, *shared = c.shared, *(cudaStream_t *)stream = c.stream;
  return cudaSuccess;
}

static int launch_is_possible(dim3 grid, dim3 block) {
  const struct cudaDeviceProp *p = &device_properties;
  if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z) return 0;
  if (grid.x > (unsigned)p->maxGridSize[0] || grid.y > (unsigned)p->maxGridSize[1] ||
      grid.z > (unsigned)p->maxGridSize[2])
    return 0;
  if (block.x > (unsigned)p->maxThreadsDim[0] || block.y > (unsigned)p->maxThreadsDim[1] ||
      block.z > (unsigned)p->maxThreadsDim[2])
    return 0;
  return (uint64_t)block.x * block.y * block.z <= (uint64_t)p->maxThreadsPerBlock;
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream) {
  (void)stream;
  struct symbol kernel;
  if (!find_symbol(function, &kernel)) return report(cudaErrorInvalidDeviceFunction);
  if (!launch_is_possible(grid, block)) return report(cudaErrorInvalidConfiguration);
  if (shared > kernel.dynamic_shared_limit) return report(cudaErrorInvalidValue);
  unsigned grid3[3] = {grid.x, grid.y, grid.z}, block3[3] = {block.x, block.y, block.z};
  return report((cudaError_t)launch_callback(kernel.module->image, kernel.module, kernel.name,
                                             grid3, block3, shared, arguments));
}

/* nvcc's stubs ask for a handle first; ours is the host's stand-in itself. */
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function) {
  *kernel = (cudaKernel_t)function;
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute,
                                 int value) {
  if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      (size_t)value > device_properties.sharedMemPerBlockOptin)
    return report(cudaErrorInvalidValue);
  cudaError_t result = cudaErrorInvalidDeviceFunction;
  pthread_mutex_lock(&registry_lock);
  for (size_t i = 0; i < symbol_count; ++i)
    if (symbols[i].host == function && symbols[i].module->live) {
      symbols[i].dynamic_shared_limit = (size_t)value;
      result = cudaSuccess;
    }
  pthread_mutex_unlock(&registry_lock);
  return report(result);
}

cudaError_t cudaFuncSetCacheConfig(const void *function, enum cudaFuncCache config) {
  (void)function, (void)config;
  return cudaSuccess;
}

/* ---- memory ------------------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **pointer, size_t bytes) {
  if (!pointer) return report(cudaErrorInvalidValue);
  *pointer = sim_alloc_owned(bytes);
  return *pointer || !bytes ? cudaSuccess : report(cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void *pointer) {
  if (!pointer) return cudaSuccess;
  return sim_free(pointer) ? report(cudaErrorInvalidValue) : cudaSuccess;
}

cudaError_t cudaMallocAsync(void **pointer, size_t bytes, cudaStream_t stream) {
  (void)stream;
  return cudaMalloc(pointer, bytes);
}

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) {
  (void)stream;
  return cudaFree(pointer);
}

/* A range is the device's when one live allocation holds all of it. */
static int is_device_range(const void *pointer, size_t bytes) {
  const sim_allocation *found = sim_find((uint64_t)pointer);
  return found && found->live && (uint64_t)pointer + bytes <= found->start + found->size;
}

static int ends_fit(const void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost: return !sim_contains(to) && !sim_contains(from);
    case cudaMemcpyHostToDevice: return is_device_range(to, bytes) && !sim_contains(from);
    case cudaMemcpyDeviceToHost: return !sim_contains(to) && is_device_range(from, bytes);
    case cudaMemcpyDeviceToDevice: return is_device_range(to, bytes) && is_device_range(from, bytes);
    case cudaMemcpyDefault:
      return (!sim_contains(to) || is_device_range(to, bytes)) &&
             (!sim_contains(from) || is_device_range(from, bytes));
    default: return 0;
  }
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
  if (!bytes) return cudaSuccess;
  if ((unsigned)kind > cudaMemcpyDefault) return report(cudaErrorInvalidMemcpyDirection);
  if (!ends_fit(to, from, bytes, kind)) return report(cudaErrorInvalidValue);
  memmove(to, from, bytes);
  if (sim_contains(from))
    sim_copy_written(to, from, bytes);
  else
    sim_mark_written(to, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
  (void)stream;
  return cudaMemcpy(to, from, bytes, kind);
}

cudaError_t cudaMemset(void *pointer, int value, size_t bytes) {
  if (!bytes) return cudaSuccess;
  if (!is_device_range(pointer, bytes)) return report(cudaErrorInvalidValue);
  memset(pointer, value, bytes);
  sim_mark_written(pointer, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *pointer, int value, size_t bytes, cudaStream_t stream) {
  (void)stream;
  return cudaMemset(pointer, value, bytes);
}

cudaError_t cudaGetSymbolAddress(void **address, const void *host) {
  struct symbol variable;
  if (!find_symbol(host, &variable)) return report(cudaErrorInvalidSymbol);
  *address = (void *)symbol_callback(variable.module->image, variable.module, variable.name);
  return *address ? cudaSuccess : report(cudaErrorInvalidSymbol);
}

cudaError_t cudaMemcpyToSymbol(const void *host, const void *from, size_t bytes, size_t offset,
                               enum cudaMemcpyKind kind) {
  void *address;
  cudaError_t error = cudaGetSymbolAddress(&address, host);
  return error ? error : cudaMemcpy((char *)address + offset, from, bytes, kind);
}

cudaError_t cudaMemcpyToSymbolAsync(const void *host, const void *from, size_t bytes,
                                    size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream) {
  (void)stream;
  return cudaMemcpyToSymbol(host, from, bytes, offset, kind);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
  *free_bytes = *total = device_properties.totalGlobalMem;
  return cudaSuccess;
}

/* ---- device, streams, events --------------------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : report(cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
  if (device != 0) return report(cudaErrorInvalidDevice);
  *properties = device_properties;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
  const struct cudaDeviceProp *p = &device_properties;
  if (device != 0) return report(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = p->maxThreadsPerBlock; break;
    case cudaDevAttrWarpSize: *value = p->warpSize; break;
    case cudaDevAttrMultiProcessorCount: *value = p->multiProcessorCount; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = (int)p->sharedMemPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = (int)p->sharedMemPerBlockOptin; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = (int)p->sharedMemPerMultiprocessor;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p->maxThreadsPerMultiProcessor; break;
    case cudaDevAttrMaxRegistersPerBlock: *value = p->regsPerBlock; break;
    case cudaDevAttrMaxGridDimX: *value = p->maxGridSize[0]; break;
    case cudaDevAttrMaxGridDimY: *value = p->maxGridSize[1]; break;
    case cudaDevAttrMaxGridDimZ: *value = p->maxGridSize[2]; break;
    case cudaDevAttrL2CacheSize: *value = p->l2CacheSize; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p->major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p->minor; break;
    case cudaDevAttrCooperativeLaunch: *value = p->cooperativeLaunch; break;
    default: return report(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void) { return cudaSuccess; }

static __thread cudaStream_t current_stream;

void *sim_current_stream(void) { return current_stream; }

void sim_set_current_stream(void *stream) { current_stream = stream; }

/* Handles only have to differ from one another and from the default stream. */
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
  (void)flags, (void)priority;
  *stream = malloc(1);
  return *stream ? cudaSuccess : report(cudaErrorMemoryAllocation);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
  return cudaStreamCreateWithPriority(stream, 0, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  free(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  (void)stream;
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  (void)stream;
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  (void)stream, (void)event, (void)flags;
  return cudaSuccess;
}

/* An event is the time at which it was recorded, so that differences are not negative. */
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  (void)flags;
  *event = calloc(1, sizeof(struct timespec));
  return *event ? cudaSuccess : report(cudaErrorMemoryAllocation);
}

cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  free(event);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  (void)stream;
  clock_gettime(CLOCK_MONOTONIC, (struct timespec *)event);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  (void)event;
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  (void)event;
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const struct timespec *a = (struct timespec *)start, *b = (struct timespec *)end;
  *milliseconds = (float)(1e3 * (double)(b->tv_sec - a->tv_sec) +
                          1e-6 * (double)(b->tv_nsec - a->tv_nsec));
  return cudaSuccess;
}
