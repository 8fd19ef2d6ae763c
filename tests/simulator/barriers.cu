// Barriers that not every thread reaches, for test_synccheck.py.

extern "C" __global__ void two_barriers(int limit) {
  if (threadIdx.x < limit) {
    asm volatile("bar.sync 1;" ::: "memory");  // first
  } else {
    asm volatile("bar.sync 2;" ::: "memory");  // second
  }
}

extern "C" __global__ void counted(int limit) {
  if (threadIdx.x < limit) asm volatile("bar.sync 3, 64;" ::: "memory");  // counted
}

extern "C" __global__ void in_both_branches(int* y, int limit) {
  if (threadIdx.x < limit) {
    y[threadIdx.x] = 1;
    asm volatile("bar.sync 0;" ::: "memory");  // then
    y[threadIdx.x] = 3;
  } else {
    y[threadIdx.x] = 2;
    asm volatile("bar.sync 0;" ::: "memory");  // else
    y[threadIdx.x] = 4;
  }
}

extern "C" __global__ void early_return(int* y, int limit) {
  __shared__ int room[64];
  room[threadIdx.x] = threadIdx.x;
  if (threadIdx.x >= limit) return;
  __syncthreads();  // meeting
  y[threadIdx.x] = room[63 - threadIdx.x];
}
