// Calls of every kind, printf, assert, and branch tables, for test_functions.py.
#include <cassert>
#include <cstdio>

__device__ __noinline__ long long factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }

__device__ __noinline__ int odd(int n);
__device__ __noinline__ int even(int n) { return n == 0 ? 1 : odd(n - 1); }
__device__ __noinline__ int odd(int n) { return n == 0 ? 0 : even(n - 1); }

struct Node {
  int value, left, right;
};
__device__ __noinline__ int tree_sum(const Node* nodes, int at, int* visited) {
  if (at < 0) return 0;
  int path[2] = {nodes[at].left, nodes[at].right};
  int sum = nodes[at].value;
  ++*visited;
  for (int i = 0; i < 2; i++) sum += tree_sum(nodes, path[i], visited);
  return sum;
}

__global__ void recursion(long long* y, int* parity, int* sums, const Node* nodes) {
  int t = threadIdx.x, visited = 0;
  y[t] = t % 3 ? factorial(t) : -1;
  parity[t] = even(t) * 2 + odd(t);
  sums[t] = tree_sum(nodes, t % 7, &visited) * 100 + visited;
}

__global__ void endless(int* y, const Node* nodes) {
  int visited = 0;
  y[0] = tree_sum(nodes, 0, &visited);
}

__device__ __noinline__ float twice(float x) { return x * 2; }
__device__ __noinline__ float plus_one(float x) { return x + 1; }
__device__ __noinline__ float thread_of(float x) { return x + threadIdx.x * 1000; }
typedef float (*Function)(float);
__device__ Function functions[3] = {twice, plus_one, thread_of};

__global__ void pointers(float* y, int fixed) {
  int t = threadIdx.x;
  float v = functions[t % 3](y[t]);
  y[t] = functions[fixed](v);
}

struct Shape {
  int side;
  __device__ Shape(int s) : side(s) {}
  virtual __device__ int area(int scale) const = 0;
};
struct Square : Shape {
  __device__ Square(int s) : Shape(s) {}
  __device__ __noinline__ int area(int scale) const override { return side * side * scale; }
};
struct Line : Shape {
  int width;
  __device__ Line(int s) : Shape(s), width(s + 1) {}
  __device__ __noinline__ int area(int scale) const override { return side * width + scale; }
};

__global__ void virtual_calls(int* y) {
  int t = threadIdx.x;
  Square square(t);
  Line line(t);
  const Shape* shape = t & 2 ? (const Shape*)&square : &line;
  y[t] = shape->area(3) + (t & 1 ? shape->area(t) : 0);
}

struct Big {
  double a;
  char tag[3];
  short b;
  float4 c;
};
__device__ __noinline__ Big change(Big x, short by) {
  x.a += by;
  x.tag[1] = 'z';
  x.b -= by;
  x.c.w *= by;
  return x;
}
__device__ Big (*changer)(Big, short) = change;
__global__ void structures(Big* y) { y[threadIdx.x] = changer(y[threadIdx.x], threadIdx.x); }

__global__ void prints(int n, float f, const char* nothing) {
  long long big = 1234567890123LL;
  if (threadIdx.x < n)
    printf("%d|%5u|%-4d|%lld|%llx|%f|%.3e|%g|%s|%c|%p|%%|%*d|%05.1f\n", -threadIdx.x, 7u, 42, big,
           0xFEDCBA9876543210ull, f, f, (double)f * 1e10, threadIdx.x ? "odd" : "even",
           'a' + threadIdx.x, nothing, 6, 99, 2.25);
}
__global__ void prints_plainly() { printf("no arguments\n"); }

__global__ void asserts(const int* x) {
  assert(x[threadIdx.y * 4 + threadIdx.x] > 0 && "positive");  // line of the assertion
}

__global__ void switches(int* y, int n) {
  int t = threadIdx.x, r;
  asm volatile(
      "{\n\t"
      "table: .branchtargets A, B, C;\n\t"
      "brx.idx %1, table;\n\t"
      "A: mov.s32 %0, 100; bra D;\n\t"
      "B: add.s32 %0, %1, %2; bra D;\n\t"
      "C: mul.lo.s32 %0, %1, %2;\n\t"
      "D: mov.s32 %0, %0; }"
      : "=&r"(r)
      : "r"(t % 3), "r"(n));
  y[t] = r;
}

__global__ void exits(int* y) {
  y[threadIdx.x] = 1;
  if (threadIdx.x & 1) asm volatile("exit;");
  y[threadIdx.x] = 2;
}
