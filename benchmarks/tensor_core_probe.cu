// Records what a GPU's tensor cores compute, as data for harness/simulator/actions/tensor_core.py:
//
//     nvcc -arch=sm_90 benchmarks/tensor_core_probe.cu -o probe && ./probe 200 > measured.json
//     python benchmarks/tensor_core_fit.py measured.json
//
// The argument is the number of multiplications for each type and kind of operands. The output is
// one JSON object. For each multiplication, it has the bits in the registers of the 32 threads, as
// [register][thread].
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

enum Form { F16, F16_HALF, BF16, TF32, E4M3, FORMS };
static const char *const names[] = {"f16", "f16_half", "bf16", "tf32", "e4m3"};
static const int sums[] = {4, 2, 4, 4, 4};

__global__ void multiply(Form form, uint32_t *d, const uint32_t *a, const uint32_t *b,
                         const uint32_t *c) {
  const int t = threadIdx.x;
  a += blockIdx.x * 128, b += blockIdx.x * 64, c += blockIdx.x * 128, d += blockIdx.x * 128;
  uint32_t x[4], y[2], z[4];
  for (int i = 0; i < 4; ++i) x[i] = a[i * 32 + t], z[i] = c[i * 32 + t];
  for (int i = 0; i < 2; ++i) y[i] = b[i * 32 + t];
#define MMA(TEXT)                                                                              \
  asm volatile("mma.sync.aligned." TEXT " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9},"        \
               " {%0, %1, %2, %3};"                                                            \
               : "+r"(z[0]), "+r"(z[1]), "+r"(z[2]), "+r"(z[3])                                \
               : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  switch (form) {
  case F16: MMA("m16n8k16.row.col.f32.f16.f16.f32") break;
  case BF16: MMA("m16n8k16.row.col.f32.bf16.bf16.f32") break;
  case TF32: MMA("m16n8k8.row.col.f32.tf32.tf32.f32") break;
  case E4M3: MMA("m16n8k32.row.col.f32.e4m3.e4m3.f32") break;
  default:
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5},"
                 " {%6, %7}, {%0, %1};"
                 : "+r"(z[0]), "+r"(z[1])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  }
  for (int i = 0; i < 4; ++i) d[i * 32 + t] = z[i];
}

static std::mt19937 generator(1);

static uint32_t element(int exponent_bits, int fraction_bits, int kind) {
  const uint32_t ones = (1u << exponent_bits) - 1, bias = ones >> 1, random = generator();
  uint32_t exponent = bias, fraction = generator() & ((1u << fraction_bits) - 1);
  switch (kind) {
  case 0: exponent = bias - 2 + random % 5; break;                   // similar sizes
  case 1: exponent = 1 + random % (ones - 1); break;                 // all sizes
  case 2: exponent = bias - 6 + random % 13, fraction &= ~0u << (fraction_bits - 1); break;
  case 3: exponent = random % 3; break;                              // subnormal, or nearly
  case 6: exponent = bias - (exponent_bits == 8 ? 75 : bias) + random % 4; break;  // tiny
  case 4: exponent = ones - 1 - random % 3; break;                   // sums that overflow
  default: exponent = random % 16 ? bias : ones, fraction &= 1; break;  // infinities and NaN
  }
  if (exponent_bits == 4 && exponent == ones) exponent = ones - 1;  // e4m3 has no infinities
  const uint32_t sign = generator() & 1;
  return ((sign << exponent_bits | exponent) << fraction_bits) | fraction;
}

static uint32_t word(Form form, int kind, bool is_sum) {
  if (is_sum && kind == 6) return 0;
  if (is_sum && form != F16_HALF) return generator() % 4 ? element(8, 23, kind) : 0;
  if (form == TF32) return element(8, 10, kind) << 13;
  if (form == E4M3)
    return element(4, 3, kind) | element(4, 3, kind) << 8 | element(4, 3, kind) << 16 |
           element(4, 3, kind) << 24;
  if (form == BF16) return element(8, 7, kind) | element(8, 7, kind) << 16;
  return element(5, 10, kind) | element(5, 10, kind) << 16;
}

static void print(const char *name, const uint32_t *words, int registers) {
  printf("\"%s\": [", name);
  for (int r = 0; r < registers; ++r) {
    printf(r ? ", [" : "[");
    for (int t = 0; t < 32; ++t) printf(t ? ",%u" : "%u", words[r * 32 + t]);
    printf("]");
  }
  printf("]");
}

int main(int count_of_arguments, char **arguments) {
  const int count = count_of_arguments > 1 ? atoi(arguments[1]) : 100;
  cudaDeviceProp device;
  if (cudaGetDeviceProperties(&device, 0) != cudaSuccess) return 1;
  printf("{\"device\": \"%s\", \"capability\": \"%d.%d\", \"measured\": [", device.name,
         device.major, device.minor);
  uint32_t *memory;
  const size_t words = size_t(count) * (128 + 64 + 128 + 128);
  if (cudaMallocManaged(&memory, words * 4) != cudaSuccess) return 1;
  uint32_t *a = memory, *b = a + count * 128, *c = b + count * 64, *d = c + count * 128;
  bool is_first = true;
  for (int form = 0; form < FORMS; ++form)
    for (int kind = 0; kind < 7; ++kind) {
      for (int i = 0; i < count * 128; ++i) a[i] = word(Form(form), kind, false);
      for (int i = 0; i < count * 64; ++i) b[i] = word(Form(form), kind, false);
      for (int i = 0; i < count * 128; ++i) c[i] = word(Form(form), kind, true);
      multiply<<<count, 32>>>(Form(form), d, a, b, c);
      if (cudaDeviceSynchronize() != cudaSuccess) return 1;
      for (int i = 0; i < count; ++i) {
        printf("%s\n{\"form\": \"%s\", \"kind\": %d, ", is_first ? "" : ",", names[form], kind);
        is_first = false;
        print("a", a + i * 128, 4);
        printf(", ");
        print("b", b + i * 64, 2);
        printf(", ");
        print("c", c + i * 128, sums[form]);
        printf(", ");
        print("d", d + i * 128, sums[form]);
        printf("}");
      }
    }
  printf("\n]}\n");
}
