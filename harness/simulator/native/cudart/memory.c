/* Allocation, copies and fills of memory. The device process has all of the memory. */
#include <string.h>

#include "internal.h"

/* ---- allocation ------------------------------------------------------------------------------ */

static cudaError_t allocate(void **pointer, size_t bytes) {
  NEED_CONTEXT();
  if (!pointer) return sim_report(cudaErrorInvalidValue);
  uint64_t address = 0;
  const struct sim_wanted asked = {bytes, 1};
  cudaError_t error = cudaSuccess;
  if (bytes)
    error = (cudaError_t)sim_ask(SIM_CALL_ALLOCATE, &(struct sim_part){&asked, sizeof asked}, 1,
                                 &address, sizeof address);
  *pointer = (void *)address;
  return sim_report(error);
}

/* Return the live allocation that holds the address, or one of size 0 if there is none. */
static struct sim_range find_live(const void *pointer) {
  struct sim_range found = {0};
  const uint64_t address = (uint64_t)pointer;
  if (sim_contains(pointer))
    sim_ask(SIM_CALL_FIND, &(struct sim_part){&address, sizeof address}, 1, &found, sizeof found);
  return found;
}

/* Free memory, in a broken context too: there the CUDA call frees it, but returns the error that
 * broke the context. */
static cudaError_t give_back(void *pointer, int is_host_memory) {
  const uint64_t address = (uint64_t)pointer;
  if (pointer) {
    if ((sim_sharing_of(pointer, 0) == PINNED) != is_host_memory)
      return sim_report(cudaErrorInvalidValue);
    sim_copies_end(NULL);
    int error =
        sim_ask(SIM_CALL_FREE, &(struct sim_part){&address, sizeof address}, 1, NULL, 0);
    if (error) return sim_report((cudaError_t)error);
    sim_forget_managed(pointer);
  }
  return sim_broken();
}

cudaError_t cudaMalloc(void **pointer, size_t bytes) {
  return allocate(pointer, bytes);
}

cudaError_t cudaMallocAsync(void **pointer, size_t bytes, cudaStream_t stream) {
  if (!sim_is_stream(stream)) return sim_report(cudaErrorInvalidResourceHandle);
  return cudaMalloc(pointer, bytes);
}

cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height) {
  if (!pitch) return sim_report(cudaErrorInvalidValue);
  *pitch = (width + 511) / 512 * 512;
  return cudaMalloc(pointer, *pitch * height);
}

cudaError_t cudaMallocManaged(void **pointer, size_t bytes, unsigned flags) {
  if (!bytes || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost))
    return sim_report(cudaErrorInvalidValue);
  return sim_allocate_managed(pointer, bytes, 0);
}

cudaError_t cudaMallocHost(void **pointer, size_t bytes) {
  return sim_allocate_managed(pointer, bytes, 1);
}

cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned flags) {
  if (flags & ~(unsigned)(cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined))
    return sim_report(cudaErrorInvalidValue);
  return cudaMallocHost(pointer, bytes);
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags) {
  if (!device || flags || sim_sharing_of(host, 0) != PINNED)
    return sim_report(cudaErrorInvalidValue);
  *device = host;
  return cudaSuccess;
}

cudaError_t cudaFree(void *pointer) { return give_back(pointer, 0); }

/* The memory is freed when all earlier work is done, on every stream and not only on this one. */
cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) {
  if (!pointer || !sim_is_stream(stream)) return sim_report(cudaErrorInvalidValue);
  if (sim_sharing_of(pointer, 0) != NOT_SHARED) return cudaFree(pointer);
  const struct sim_range found = find_live(pointer);
  if (!found.size || found.start != (uint64_t)pointer) return sim_report(cudaErrorInvalidValue);
  sim_release(pointer);
  return sim_broken();
}

cudaError_t cudaFreeHost(void *pointer) { return give_back(pointer, 1); }

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                     const void *pointer) {
  NEED_CONTEXT();
  if (!attributes) return sim_report(cudaErrorInvalidValue);
  static const enum cudaMemoryType types[] = {
      [NOT_SHARED] = cudaMemoryTypeDevice,
      [PINNED] = cudaMemoryTypeHost,
      [MANAGED] = cudaMemoryTypeManaged,
  };
  const int is_here = find_live(pointer).size != 0;
  const enum sim_sharing sharing = sim_sharing_of(pointer, 0);
  void *same = (void *)pointer;
  *attributes = (struct cudaPointerAttributes){
      .type = is_here ? types[sharing] : cudaMemoryTypeUnregistered,
      .device = is_here ? 0 : cudaInvalidDeviceId,
      .devicePointer = is_here ? same : NULL,
      .hostPointer = is_here && sharing == NOT_SHARED ? NULL : same,
  };
  return cudaSuccess;
}

/* Accept advice on managed memory's place and use, which only affects speed. */
static cudaError_t advise(const void *pointer) {
  NEED_CONTEXT();
  return find_live(pointer).size ? cudaSuccess : sim_report(cudaErrorInvalidValue);
}

/* In CUDA 12 these functions take a device's number, and those of CUDA 13 have other names. */
#if CUDART_VERSION < 13000
#define PREFETCH_TO_PLACE cudaMemPrefetchAsync_v2
#define ADVISE_OF_PLACE cudaMemAdvise_v2

cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t bytes, int device,
                                 cudaStream_t stream) {
  (void)bytes, (void)device, (void)stream;
  return advise(pointer);
}

cudaError_t cudaMemAdvise(const void *pointer, size_t bytes, enum cudaMemoryAdvise advice,
                          int device) {
  (void)bytes, (void)advice, (void)device;
  return advise(pointer);
}
#else
#define PREFETCH_TO_PLACE cudaMemPrefetchAsync
#define ADVISE_OF_PLACE cudaMemAdvise
#endif

cudaError_t PREFETCH_TO_PLACE(const void *pointer, size_t bytes, struct cudaMemLocation location,
                              unsigned flags, cudaStream_t stream) {
  (void)bytes, (void)location, (void)flags, (void)stream;
  return advise(pointer);
}

cudaError_t ADVISE_OF_PLACE(const void *pointer, size_t bytes, enum cudaMemoryAdvise advice,
                            struct cudaMemLocation location) {
  (void)bytes, (void)advice, (void)location;
  return advise(pointer);
}

/* ---- the default pool, which has all memory -------------------------------------------------- */

static char default_pool;

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
  if (device) return sim_report(cudaErrorInvalidDevice);
  *pool = (cudaMemPool_t)&default_pool;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device) {
  return cudaDeviceGetDefaultMemPool(pool, device);
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute,
                                    void *value) {
  (void)attribute, (void)value;
  return pool == (cudaMemPool_t)&default_pool ? cudaSuccess : sim_report(cudaErrorInvalidValue);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes) {
  (void)bytes;
  return cudaMemPoolSetAttribute(pool, cudaMemPoolReuseFollowEventDependencies, NULL);
}

cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  if (pool != (cudaMemPool_t)&default_pool) return sim_report(cudaErrorInvalidValue);
  return cudaMallocAsync(pointer, bytes, stream);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Return whether memory is the host's: outside of the device, or in one allocation that the host
 * can use as well. */
static int is_host_range(const void *pointer, size_t bytes) {
  return sim_contains(pointer) ? sim_sharing_of(pointer, bytes) != NOT_SHARED : pointer != NULL;
}

/* Return whether memory is the device's. The device process checks that one live allocation holds
 * it. */
static int is_device_range(const void *pointer) { return sim_contains(pointer); }

/* Return whether the two ends of a copy fit its kind. */
static int ends_fit(const void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost: return is_host_range(to, bytes) && is_host_range(from, bytes);
    case cudaMemcpyHostToDevice: return is_device_range(to) && is_host_range(from, bytes);
    case cudaMemcpyDeviceToHost: return is_host_range(to, bytes) && is_device_range(from);
    case cudaMemcpyDeviceToDevice: return is_device_range(to) && is_device_range(from);
    default: return to && from;
  }
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
  NEED_CONTEXT();
  if (!sim_is_stream(stream)) return sim_report(cudaErrorInvalidResourceHandle);
  if ((unsigned)kind > cudaMemcpyDefault) return sim_report(cudaErrorInvalidMemcpyDirection);
  if (!bytes) return cudaSuccess;
  if (!ends_fit(to, from, bytes, kind)) return sim_report(cudaErrorInvalidValue);
  const int to_host = is_host_range(to, bytes), from_host = is_host_range(from, bytes);
  const int is_pinned = sim_sharing_of(to_host ? to : from, bytes) == PINNED;
  if (to_host && is_pinned) sim_source_is_written(to, bytes);
  if (to_host && from_host) {
    memmove(to, from, bytes);
    return cudaSuccess;
  }
  sim_flush_managed();
  const struct sim_wait wait = sim_wait_for(stream);
  /* The host may wait for a copy from or to memory that is not pinned. */
  if ((to_host || from_host) && !is_pinned) sim_copies_end(&wait);
  sim_work_on(stream);
  int error = to_host     ? sim_read(to, from, bytes)
              : from_host ? sim_write(to, from, bytes)
                          : sim_copy_bytes(to, from, bytes);
  if (from_host && is_pinned) sim_copy_begins(from, bytes, wait.stream);
  return sim_report((cudaError_t)error);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream) {
  NEED_CONTEXT();
  if (width > to_pitch || width > from_pitch) return sim_report(cudaErrorInvalidPitchValue);
  for (size_t row = 0; row < height; ++row) {
    cudaError_t error =
        cudaMemcpyAsync((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width,
                        kind, stream);
    if (error) return error;
  }
  return cudaSuccess;
}

/* Finish a call without a stream: the host waits for the default stream. */
static cudaError_t and_wait(cudaError_t error) {
  return error ? error : cudaStreamSynchronize(NULL);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
  return and_wait(cudaMemcpyAsync(to, from, bytes, kind, NULL));
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t bytes, cudaStream_t stream) {
  if (to_device || from_device) return sim_report(cudaErrorInvalidDevice);
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device,
                           size_t bytes) {
  return and_wait(cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, NULL));
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                         size_t width, size_t height, enum cudaMemcpyKind kind) {
  return and_wait(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, NULL));
}

/* ---- fills ----------------------------------------------------------------------------------- */

cudaError_t cudaMemsetAsync(void *pointer, int value, size_t bytes, cudaStream_t stream) {
  NEED_CONTEXT();
  if (!sim_is_stream(stream)) return sim_report(cudaErrorInvalidResourceHandle);
  if (!bytes) return cudaSuccess;
  sim_flush_managed();
  sim_work_on(stream);
  const struct sim_fill fill = {(uint64_t)pointer, bytes, (unsigned char)value};
  return sim_report(
      (cudaError_t)sim_ask(SIM_CALL_FILL, &(struct sim_part){&fill, sizeof fill}, 1, NULL, 0));
}

cudaError_t cudaMemset(void *pointer, int value, size_t bytes) {
  return cudaMemsetAsync(pointer, value, bytes, NULL);
}

cudaError_t cudaMemset2DAsync(void *pointer, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  NEED_CONTEXT();
  if (width > pitch) return sim_report(cudaErrorInvalidPitchValue);
  for (size_t row = 0; row < height; ++row) {
    cudaError_t error = cudaMemsetAsync((char *)pointer + row * pitch, value, width, stream);
    if (error) return error;
  }
  return cudaSuccess;
}

cudaError_t cudaMemset2D(void *pointer, size_t pitch, int value, size_t width, size_t height) {
  return cudaMemset2DAsync(pointer, pitch, value, width, height, NULL);
}

/* ---- variables: each is an allocation, so that copies are checked against its bounds --------- */

cudaError_t cudaGetSymbolAddress(void **address, const void *host) {
  NEED_CONTEXT();
  struct sim_symbol variable;
  uint64_t module, found = 0;
  if (!address) return sim_report(cudaErrorInvalidValue);
  if (!sim_find_symbol(host, &variable)) return sim_report(cudaErrorInvalidSymbol);
  cudaError_t error = sim_number_of(variable.module, &module);
  if (error) return sim_report(error);
  const struct sim_part parts[] = {{&module, sizeof module}, {variable.name, strlen(variable.name)}};
  error = (cudaError_t)sim_ask(SIM_CALL_SYMBOL, parts, 2, &found, sizeof found);
  *address = (void *)found;
  sim_know_variable(*address, variable.size);
  return error ? sim_report(error) : found ? cudaSuccess : sim_report(cudaErrorInvalidSymbol);
}

cudaError_t cudaGetSymbolSize(size_t *bytes, const void *host) {
  NEED_CONTEXT();
  struct sim_symbol variable;
  if (!bytes) return sim_report(cudaErrorInvalidValue);
  if (!sim_find_symbol(host, &variable)) return sim_report(cudaErrorInvalidSymbol);
  *bytes = variable.size;
  return cudaSuccess;
}

cudaError_t cudaMemcpyToSymbolAsync(const void *host, const void *from, size_t bytes,
                                    size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream) {
  void *address;
  if (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost)
    return sim_report(cudaErrorInvalidMemcpyDirection);
  cudaError_t error = cudaGetSymbolAddress(&address, host);
  return error ? error : cudaMemcpyAsync((char *)address + offset, from, bytes, kind, stream);
}

cudaError_t cudaMemcpyToSymbol(const void *host, const void *from, size_t bytes, size_t offset,
                               enum cudaMemcpyKind kind) {
  return and_wait(cudaMemcpyToSymbolAsync(host, from, bytes, offset, kind, NULL));
}

cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *host, size_t bytes, size_t offset,
                                      enum cudaMemcpyKind kind, cudaStream_t stream) {
  void *address;
  if (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost)
    return sim_report(cudaErrorInvalidMemcpyDirection);
  cudaError_t error = cudaGetSymbolAddress(&address, host);
  return error ? error : cudaMemcpyAsync(to, (char *)address + offset, bytes, kind, stream);
}

cudaError_t cudaMemcpyFromSymbol(void *to, const void *host, size_t bytes, size_t offset,
                                 enum cudaMemcpyKind kind) {
  return and_wait(cudaMemcpyFromSymbolAsync(to, host, bytes, offset, kind, NULL));
}
