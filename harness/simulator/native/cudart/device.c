/* The properties, attributes and limits of the only device. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

struct cudaDeviceProp sim_properties;

/* Set the properties. Those that the device process does not send are an H200's. */
void sim_set_device(const struct sim_device *device) {
  sim_properties = (struct cudaDeviceProp){
      .major = device->major,
      .minor = device->minor,
      .totalGlobalMem = device->total_memory,
      .multiProcessorCount = device->multiprocessors,
      .sharedMemPerBlock = device->shared_per_block,
      .sharedMemPerBlockOptin = device->shared_per_block_optin,
      .sharedMemPerMultiprocessor = device->shared_per_multiprocessor,
      .reservedSharedMemPerBlock = 1024,
      .regsPerBlock = 65536,
      .regsPerMultiprocessor = 65536,
      .warpSize = 32,
      .maxThreadsPerBlock = 1024,
      .maxThreadsPerMultiProcessor = 2048,
      .maxBlocksPerMultiProcessor = 32,
      .maxThreadsDim = {1024, 1024, 64},
      .maxGridSize = {2147483647, 65535, 65535},
      .totalConstMem = 65536,
      .memPitch = 2147483647,
      .textureAlignment = 512,
      .texturePitchAlignment = 32,
      .surfaceAlignment = 512,
      .l2CacheSize = device->l2_bytes,
      .persistingL2CacheMaxSize = device->l2_bytes / 8 * 5,
      .accessPolicyMaxWindowSize = 134213632,
      .memoryBusWidth = 6016,
      .asyncEngineCount = 3,
      .concurrentKernels = 1,
      .ECCEnabled = 1,
      .unifiedAddressing = 1,
      .unifiedFunctionPointers = 1,
      .canMapHostMemory = 1,
      .managedMemory = 1,
      .concurrentManagedAccess = 1,
      .streamPrioritiesSupported = 1,
      .globalL1CacheSupported = 1,
      .localL1CacheSupported = 1,
      .computePreemptionSupported = 1,
      .cooperativeLaunch = 1,
      .memoryPoolsSupported = 1,
      .clusterLaunch = 1,
  };
  snprintf(sim_properties.name, sizeof sim_properties.name, "%s", device->name);
}

void sim_pretend_multiprocessors(int count) {
  sim_properties.multiProcessorCount = count;
}

static cudaError_t check_device(int device) {
  return device == 0 ? cudaSuccess : sim_report(cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceCount(int *count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) { return check_device(device); }

cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags) {
  (void)device_flags, (void)flags;
  return check_device(device);
}

cudaError_t cudaSetDeviceFlags(unsigned flags) {
  (void)flags;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceFlags(unsigned *flags) {
  *flags = cudaDeviceScheduleAuto;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
  if (check_device(device) || check_device(peer)) return cudaErrorInvalidDevice;
  *can = 0;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) { return cudaDriverGetVersion(version); }

/* The header that declares these is not in the compiler's packages on PyPI. */
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);

cudaError_t cudaProfilerStart(void) { return sim_broken(); }

cudaError_t cudaProfilerStop(void) { return sim_broken(); }

/* ---- properties and attributes --------------------------------------------------------------- */

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
  if (check_device(device)) return cudaErrorInvalidDevice;
  *properties = sim_properties;
  return cudaSuccess;
}

/* The attributes that are equal to a property. */
static const struct field {
  enum cudaDeviceAttr attribute;
  size_t offset, size;
} fields[] = {
#define FIELD(attribute, field)                            \
  {cudaDevAttr##attribute, offsetof(struct cudaDeviceProp, field), \
   sizeof((struct cudaDeviceProp *)0)->field}
    FIELD(MaxThreadsPerBlock, maxThreadsPerBlock),
    FIELD(MaxBlockDimX, maxThreadsDim[0]),
    FIELD(MaxBlockDimY, maxThreadsDim[1]),
    FIELD(MaxBlockDimZ, maxThreadsDim[2]),
    FIELD(MaxGridDimX, maxGridSize[0]),
    FIELD(MaxGridDimY, maxGridSize[1]),
    FIELD(MaxGridDimZ, maxGridSize[2]),
    FIELD(MaxSharedMemoryPerBlock, sharedMemPerBlock),
    FIELD(MaxSharedMemoryPerBlockOptin, sharedMemPerBlockOptin),
    FIELD(MaxSharedMemoryPerMultiprocessor, sharedMemPerMultiprocessor),
    FIELD(ReservedSharedMemoryPerBlock, reservedSharedMemPerBlock),
    FIELD(TotalConstantMemory, totalConstMem),
    FIELD(WarpSize, warpSize),
    FIELD(MaxPitch, memPitch),
    FIELD(MaxRegistersPerBlock, regsPerBlock),
    FIELD(MaxRegistersPerMultiprocessor, regsPerMultiprocessor),
    FIELD(TextureAlignment, textureAlignment),
    FIELD(TexturePitchAlignment, texturePitchAlignment),
    FIELD(SurfaceAlignment, surfaceAlignment),
    FIELD(MultiProcessorCount, multiProcessorCount),
    FIELD(MaxThreadsPerMultiProcessor, maxThreadsPerMultiProcessor),
    FIELD(MaxBlocksPerMultiprocessor, maxBlocksPerMultiProcessor),
    FIELD(Integrated, integrated),
    FIELD(CanMapHostMemory, canMapHostMemory),
    FIELD(ConcurrentKernels, concurrentKernels),
    FIELD(EccEnabled, ECCEnabled),
    FIELD(GlobalMemoryBusWidth, memoryBusWidth),
    FIELD(L2CacheSize, l2CacheSize),
    FIELD(MaxPersistingL2CacheSize, persistingL2CacheMaxSize),
    FIELD(MaxAccessPolicyWindowSize, accessPolicyMaxWindowSize),
    FIELD(AsyncEngineCount, asyncEngineCount),
    FIELD(UnifiedAddressing, unifiedAddressing),
    FIELD(ComputeCapabilityMajor, major),
    FIELD(ComputeCapabilityMinor, minor),
    FIELD(StreamPrioritiesSupported, streamPrioritiesSupported),
    FIELD(GlobalL1CacheSupported, globalL1CacheSupported),
    FIELD(LocalL1CacheSupported, localL1CacheSupported),
    FIELD(ManagedMemory, managedMemory),
    FIELD(IsMultiGpuBoard, isMultiGpuBoard),
    FIELD(HostNativeAtomicSupported, hostNativeAtomicSupported),
    FIELD(PageableMemoryAccess, pageableMemoryAccess),
    FIELD(ConcurrentManagedAccess, concurrentManagedAccess),
    FIELD(ComputePreemptionSupported, computePreemptionSupported),
    FIELD(CanUseHostPointerForRegisteredMem, canUseHostPointerForRegisteredMem),
    FIELD(CooperativeLaunch, cooperativeLaunch),
    FIELD(HostRegisterSupported, hostRegisterSupported),
    FIELD(MemoryPoolsSupported, memoryPoolsSupported),
    FIELD(ClusterLaunch, clusterLaunch),
    FIELD(PciBusId, pciBusID),
    FIELD(PciDeviceId, pciDeviceID),
    FIELD(PciDomainId, pciDomainID),
    FIELD(TccDriver, tccDriver),
#undef FIELD
};

/* The attributes that CUDA 13's properties do not have, with an H200's values. */
static const struct {
  enum cudaDeviceAttr attribute;
  int value;
} constants[] = {
    {cudaDevAttrClockRate, 1980000},
    {cudaDevAttrMemoryClockRate, 3201000},
    {cudaDevAttrGpuOverlap, 1},
    {cudaDevAttrKernelExecTimeout, 0},
    {cudaDevAttrComputeMode, cudaComputeModeDefault},
    {cudaDevAttrSingleToDoublePrecisionPerfRatio, 2},
};

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
  if (!value) return sim_report(cudaErrorInvalidValue);
  if (check_device(device)) return cudaErrorInvalidDevice;
  for (size_t i = 0; i < sizeof fields / sizeof *fields; ++i)
    if (fields[i].attribute == attribute) {
      const char *field = (const char *)&sim_properties + fields[i].offset;
      *value = fields[i].size == sizeof(int) ? *(const int *)field : (int)*(const size_t *)field;
      return cudaSuccess;
    }
  for (size_t i = 0; i < sizeof constants / sizeof *constants; ++i)
    if (constants[i].attribute == attribute) {
      *value = constants[i].value;
      return cudaSuccess;
    }
  char what[64];
  snprintf(what, sizeof what, "cudaDeviceGetAttribute() for attribute %d", (int)attribute);
  return sim_unsupported(what);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static size_t limits[] = {
    [cudaLimitStackSize] = 1024,
    [cudaLimitPrintfFifoSize] = 1 << 20,
    [cudaLimitMallocHeapSize] = 8 << 20,
    [cudaLimitDevRuntimePendingLaunchCount] = 2048,
    [cudaLimitMaxL2FetchGranularity] = 64,
    [cudaLimitPersistingL2CacheSize] = 0,
};

/* From the first size on, CUDA refuses a stack. It rounds other sizes up to whole units. */
enum { stack_too_large = 512 << 10, stack_unit = 16 };

size_t sim_stack_bytes(void) { return limits[cudaLimitStackSize]; }

static int is_limit(enum cudaLimit limit) {
  return (size_t)limit < sizeof limits / sizeof *limits && limit != cudaLimitDevRuntimeSyncDepth;
}

cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit) {
  NEED_CONTEXT();
  if (!is_limit(limit)) return sim_report(cudaErrorUnsupportedLimit);
  *value = limits[limit];
  return cudaSuccess;
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value) {
  NEED_CONTEXT();
  if (!is_limit(limit)) return sim_report(cudaErrorUnsupportedLimit);
  if (limit == cudaLimitStackSize) {
    if (value >= stack_too_large) return sim_report(cudaErrorInvalidValue);
    value = (value + stack_unit - 1) / stack_unit * stack_unit;
  }
  limits[limit] = value;
  return cudaSuccess;
}

cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache config) {
  (void)config;
  return sim_broken();
}

cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *config) {
  *config = cudaFuncCachePreferNone;
  return sim_broken();
}

cudaError_t cudaCtxResetPersistingL2Cache(void) { return sim_broken(); }
