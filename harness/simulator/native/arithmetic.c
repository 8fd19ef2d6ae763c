/* Arithmetic on vectors of threads that NumPy lacks (fma with one rounding, wide products) or needs
 * several passes for.
 *
 * The arguments of every function are the number of threads, then a pointer and a stride for each
 * operand, then the result. The stride is 1 if the operand has a value for each thread, and 0 if it
 * has one for all. The result may be one of the operands.
 */
#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3,no-math-errno,no-trapping-math")
#if defined(__x86_64__)
#define VECTOR __attribute__((target_clones("avx512f", "fma", "default")))
#endif
#endif
#ifndef VECTOR
#define VECTOR
#endif

/* Threads per pass. An operand that all threads share is copied to a buffer of this many elements.
 * So one loop without a stride serves both kinds of operands, and compilers can vectorise it. */
#define BLOCK 512

#define SPREAD(T, x)                                               \
    T x##_buffer[BLOCK];                                           \
    if (!x##_stride)                                               \
        for (uint64_t i = 0; i < (n < BLOCK ? n : BLOCK); i++) x##_buffer[i] = x[0];

#define PART(T, x) const T *x##_part = x##_stride ? x + start : x##_buffer;

#define UNARY(NAME, T, R, RESULT)                                                           \
    VECTOR void sim_##NAME(uint64_t n, const T *a, uint32_t a_stride, R *out) {              \
        SPREAD(T, a)                                                                        \
        for (uint64_t start = 0; start < n; start += BLOCK) {                               \
            PART(T, a)                                                                      \
            uint64_t part = n - start < BLOCK ? n - start : BLOCK;                          \
            for (uint64_t i = 0; i < part; i++) {                                           \
                T x = a_part[i];                                                            \
                out[start + i] = (RESULT);                                                  \
            }                                                                               \
        }                                                                                   \
    }

#define BINARY(NAME, T, R, RESULT)                                                          \
    VECTOR void sim_##NAME(uint64_t n, const T *a, uint32_t a_stride, const T *b,            \
                           uint32_t b_stride, R *out) {                                     \
        SPREAD(T, a)                                                                        \
        SPREAD(T, b)                                                                        \
        for (uint64_t start = 0; start < n; start += BLOCK) {                               \
            PART(T, a)                                                                      \
            PART(T, b)                                                                      \
            uint64_t part = n - start < BLOCK ? n - start : BLOCK;                          \
            for (uint64_t i = 0; i < part; i++) {                                           \
                T x = a_part[i], y = b_part[i];                                             \
                out[start + i] = (RESULT);                                                  \
            }                                                                               \
        }                                                                                   \
    }

#define TERNARY(NAME, T, C, R, RESULT)                                                      \
    VECTOR void sim_##NAME(uint64_t n, const T *a, uint32_t a_stride, const T *b,            \
                           uint32_t b_stride, const C *c, uint32_t c_stride, R *out) {      \
        SPREAD(T, a)                                                                        \
        SPREAD(T, b)                                                                        \
        SPREAD(C, c)                                                                        \
        for (uint64_t start = 0; start < n; start += BLOCK) {                               \
            PART(T, a)                                                                      \
            PART(T, b)                                                                      \
            PART(C, c)                                                                      \
            uint64_t part = n - start < BLOCK ? n - start : BLOCK;                          \
            for (uint64_t i = 0; i < part; i++) {                                           \
                T x = a_part[i], y = b_part[i];                                             \
                C z = c_part[i];                                                            \
                out[start + i] = (RESULT);                                                  \
            }                                                                               \
        }                                                                                   \
    }

/* Replace a NaN by the canonical one. Every float32 result that is a NaN is this one (PTX ISA,
 * "Floating Point Instructions"). Double precision keeps the payloads of NaNs, as the host does. */
static inline __attribute__((always_inline)) float canonical(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    bits = value != value ? 0x7FFFFFFFu : bits;
    memcpy(&value, &bits, 4);
    return value;
}

BINARY(add_f32, float, float, canonical(x + y))
BINARY(sub_f32, float, float, canonical(x - y))
BINARY(mul_f32, float, float, canonical(x *y))
BINARY(div_f32, float, float, canonical(x / y))
UNARY(sqrt_f32, float, float, canonical(__builtin_sqrtf(x)))
TERNARY(fma_f32, float, float, float, canonical(__builtin_fmaf(x, y, z)))
UNARY(sqrt_f64, double, double, __builtin_sqrt(x))
TERNARY(fma_f64, double, double, double, __builtin_fma(x, y, z))

/* min and max return the other operand if one is NaN. -0 is less than +0. */
#define LESS(x, y) ((x) < (y) || ((x) == (y) && __builtin_signbit(x)))
BINARY(min_f32, float, float, canonical(x != x ? y : y != y || LESS(x, y) ? x : y))
BINARY(max_f32, float, float, canonical(x != x ? y : y != y || !LESS(x, y) ? x : y))
BINARY(min_f64, double, double, x != x ? y : y != y || LESS(x, y) ? x : y)
BINARY(max_f64, double, double, x != x ? y : y != y || !LESS(x, y) ? x : y)

BINARY(mul_wide_s16, int16_t, int32_t, (int32_t)x *y)
BINARY(mul_wide_u16, uint16_t, uint32_t, (uint32_t)x *y)
BINARY(mul_wide_s32, int32_t, int64_t, (int64_t)x *y)
BINARY(mul_wide_u32, uint32_t, uint64_t, (uint64_t)x *y)
TERNARY(mad_wide_s16, int16_t, uint32_t, uint32_t, (uint32_t)((int32_t)x * y) + z)
TERNARY(mad_wide_u16, uint16_t, uint32_t, uint32_t, (uint32_t)x *y + z)
TERNARY(mad_wide_s32, int32_t, uint64_t, uint64_t, (uint64_t)((int64_t)x * y) + z)
TERNARY(mad_wide_u32, uint32_t, uint64_t, uint64_t, (uint64_t)x *y + z)
TERNARY(mad_lo_u16, uint16_t, uint16_t, uint16_t, (uint16_t)((uint32_t)x * y + z))
TERNARY(mad_lo_u32, uint32_t, uint32_t, uint32_t, x *y + z)
TERNARY(mad_lo_u64, uint64_t, uint64_t, uint64_t, x *y + z)
BINARY(mul_hi_s16, int16_t, int16_t, (int16_t)((int32_t)x * y >> 16))
BINARY(mul_hi_u16, uint16_t, uint16_t, (uint16_t)((uint32_t)x * y >> 16))
BINARY(mul_hi_s32, int32_t, int32_t, (int32_t)((int64_t)x * y >> 32))
BINARY(mul_hi_u32, uint32_t, uint32_t, (uint32_t)((uint64_t)x * y >> 32))
BINARY(mul_hi_s64, int64_t, int64_t, (int64_t)((__int128)x * y >> 64))
BINARY(mul_hi_u64, uint64_t, uint64_t, (uint64_t)((unsigned __int128)x * y >> 64))

/* PTX does not define division by zero. The code that ptxas generates gives all ones for quotient
 * and remainder. The quotient of 32-bit integers is computed in double precision. The truncated
 * result is exact: rounding moves the quotient by less than 2^-21 / divisor. A quotient that is not
 * an integer is at least 1 / divisor away from the next one. */
#define DIVIDE(T, x, y) ((y) == 0 ? (T)-1 : (T)((double)(x) / (double)((y) == 0 ? 1 : (y))))
#define REMAINDER(T, U, x, y) \
    ((y) == 0 ? (T)-1 : (T)((U)(x) - (U)(T)((double)(x) / (double)((y) == 0 ? 1 : (y))) * (U)(y)))
/* INT_MIN / -1 is 2^31, which is outside of int32_t. A conversion through 64 bits wraps it. */
#define DIVIDE_S32(x, y) \
    ((y) == 0 ? -1 : (int32_t)(int64_t)((double)(x) / (double)((y) == 0 ? 1 : (y))))

BINARY(div_u16, uint16_t, uint16_t, DIVIDE(uint16_t, x, y))
BINARY(rem_u16, uint16_t, uint16_t, REMAINDER(uint16_t, uint32_t, x, y))
BINARY(div_s16, int16_t, int16_t, (int16_t)DIVIDE_S32(x, y))
BINARY(rem_s16, int16_t, int16_t, (int16_t)(y == 0 ? -1 : x - DIVIDE_S32(x, y) * y))
BINARY(div_s32, int32_t, int32_t, DIVIDE_S32(x, y))
BINARY(rem_s32, int32_t, int32_t,
       y == 0 ? -1 : (int32_t)((uint32_t)x - (uint32_t)DIVIDE_S32(x, y) * (uint32_t)y))

/* Converting unsigned 32-bit values through signed 64-bit ones takes fewer instructions. */
#define QUOTIENT_U32(x, y) \
    ((uint32_t)(int64_t)((double)(int64_t)(x) / (double)(int64_t)((y) == 0 ? 1 : (y))))
BINARY(div_u32, uint32_t, uint32_t, y == 0 ? UINT32_MAX : QUOTIENT_U32(x, y))
BINARY(rem_u32, uint32_t, uint32_t, y == 0 ? UINT32_MAX : x - QUOTIENT_U32(x, y) * y)

BINARY(div_u64, uint64_t, uint64_t, y == 0 ? UINT64_MAX : x / y)
BINARY(rem_u64, uint64_t, uint64_t, y == 0 ? UINT64_MAX : x % y)
BINARY(div_s64, int64_t, int64_t, y == 0 ? -1 : y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y)
BINARY(rem_s64, int64_t, int64_t, y == 0 ? -1 : y == -1 ? 0 : x % y)

/* Arithmetic with a rounding other than to nearest. Keep in step with instructions/floating.py. */
enum { ROUNDED_ADD, ROUNDED_MUL, ROUNDED_FMA, ROUNDED_DIV, ROUNDED_SQRT };

#define ROUNDED(NAME, T, FMA, SQRT, CLEAN)                                                   \
    void sim_rounded_##NAME(uint64_t n, uint32_t operation, uint32_t rounding, const T *a,   \
                            uint32_t a_stride, const T *b, uint32_t b_stride, const T *c,    \
                            uint32_t c_stride, T *out) {                                     \
        static const int modes[4] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};   \
        int previous = fegetround();                                                         \
        fesetround(modes[rounding & 3]);                                                     \
        for (uint64_t i = 0; i < n; i++) {                                                   \
            /* volatile: no operation may move before the mode is set or behind its reset. */   \
            volatile T x = a[i * a_stride], y = b[i * b_stride], z = c[i * c_stride], r;     \
            switch (operation) {                                                             \
            case ROUNDED_ADD: r = x + y; break;                                              \
            case ROUNDED_MUL: r = x * y; break;                                              \
            case ROUNDED_FMA: r = FMA(x, y, z); break;                                       \
            case ROUNDED_DIV: r = x / y; break;                                              \
            default: r = SQRT(x); break;                                                     \
            }                                                                                \
            out[i] = CLEAN(r);                                                               \
        }                                                                                    \
        fesetround(previous);                                                                \
    }

ROUNDED(f32, float, fmaf, sqrtf, canonical)
ROUNDED(f64, double, fma, sqrt, (double))

/* Conversions with a given rounding, from a type that holds every source value exactly. */
#define NARROW(NAME, T, R)                                                                   \
    void sim_##NAME(uint64_t n, uint32_t rounding, const T *a, uint32_t a_stride, R *out) {  \
        static const int modes[4] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};   \
        int previous = fegetround();                                                         \
        fesetround(modes[rounding & 3]);                                                     \
        for (uint64_t i = 0; i < n; i++) {                                                   \
            volatile T x = a[i * a_stride];                                                  \
            volatile R r = (R)x;                                                             \
            out[i] = r;                                                                      \
        }                                                                                    \
        fesetround(previous);                                                                \
    }

NARROW(f64_to_f32, double, float)
NARROW(s64_to_f32, int64_t, float)
NARROW(u64_to_f32, uint64_t, float)
NARROW(s64_to_f64, int64_t, double)
NARROW(u64_to_f64, uint64_t, double)
