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

// ---- Barriers that some threads skip, and barriers before which some threads return

extern "C" __global__ void skipped_once(int* y, int limit) {
  if (threadIdx.x < limit) __syncthreads();  // skipped_once
  y[blockIdx.x * 64 + threadIdx.x] = limit;
}

extern "C" __global__ void skipped_in_a_loop(int* y, int limit) {
  int sum = 0;
  for (int i = 0; i < limit; i += 10) {
    sum += i * threadIdx.x;
    if (threadIdx.x < limit) __syncthreads();  // skipped_in_a_loop
  }
  y[blockIdx.x * 64 + threadIdx.x] = sum;
}

extern "C" __global__ void left_a_loop(int* y, int limit) {
  __shared__ int room[64];
  room[threadIdx.x] = limit;
  for (int i = 0; i < (threadIdx.x < limit ? 3 : 2); i++) {
    room[threadIdx.x] *= i;
    __syncthreads();  // left_a_loop
  }
  y[blockIdx.x * 64 + threadIdx.x] = room[threadIdx.x];
}

extern "C" __global__ void return_after_an_atomic(int* y, int limit) {
  __shared__ int room[64];
  room[threadIdx.x] = threadIdx.x;
  if (threadIdx.x >= limit) {
    atomicAdd(y, 1);
    return;
  }
  __syncthreads();
  y[threadIdx.x] = room[limit - 1 - threadIdx.x];
}

extern "C" __global__ void return_from_a_loop(int* y, int limit) {
  __shared__ int room[64];
  for (int i = 0; i < 4; i++) {
    room[threadIdx.x] = i;
    if (threadIdx.x >= limit + i) return;
    __syncthreads();
    y[threadIdx.x] += room[limit - 1 - threadIdx.x % limit];
    __syncthreads();
  }
}

extern "C" __global__ void shuffle_after_return(int* y, int limit) {
  int t = threadIdx.x, v = t;
  if (t >= limit) return;
#pragma unroll 1
  for (int offset = 16; offset; offset /= 2)
    v += __shfl_down_sync(~0u, v, offset);  // ended
  y[t] = v;
}
