/* Prints the occupancy that NVIDIA's cuda_occupancy.h computes: the number of blocks for each input
 * line of registers, static bytes and dynamic bytes of shared memory, and threads. The arguments
 * are major, minor, and the threads and bytes of shared memory of a multiprocessor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_occupancy.h>

int main(int count, char **words) {
  if (count != 5) return 2;
  struct cudaOccDeviceProp device = {
      .computeMajor = atoi(words[1]),
      .computeMinor = atoi(words[2]),
      .maxThreadsPerBlock = 1024,
      .maxThreadsPerMultiprocessor = atoi(words[3]),
      .regsPerBlock = 65536,
      .regsPerMultiprocessor = 65536,
      .warpSize = 32,
      .sharedMemPerBlock = 48 << 10,
      .sharedMemPerMultiprocessor = (size_t)atoi(words[4]),
      .sharedMemPerBlockOptin = (size_t)atoi(words[4]) - 1024,
      .numSms = 1,
      .reservedSharedMemPerBlock = 1024,
  };
  struct cudaOccDeviceState state = {.carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT};
  int registers, threads;
  size_t fixed, dynamic;
  while (scanf("%d %zu %zu %d", &registers, &fixed, &dynamic, &threads) == 4) {
    struct cudaOccFuncAttributes kernel = {
        .maxThreadsPerBlock = 1024,
        .numRegs = registers,
        .sharedSizeBytes = fixed,
        .partitionedGCConfig = PARTITIONED_GC_OFF,
        .shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN,
        .maxDynamicSharedSizeBytes = device.sharedMemPerBlockOptin - fixed,
        .numBlockBarriers = 1,
    };
    struct cudaOccResult result;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads, dynamic))
      return 1;
    printf("%d\n", result.activeBlocksPerMultiprocessor);
  }
  return 0;
}
