/* The sum of one block of products, as a tensor core computes it (actions/tensor_core.py). */
#include <math.h>
#include <stdint.h>
#include <string.h>

static double power_of_two(int64_t exponent) {
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

/* Fill `out` with the products of rows of a and b plus c, for each of `count` triples of matrices.
 * They are m x k (a), n x k (b) and m x n (c).
 *
 * All numbers are exact in double precision, and come with their exponents. Every term is cut off,
 * towards zero, `fraction` bits below the largest exponent of all terms, or below `least` if that
 * is larger. The terms are then integers, whose sum is exact. The exponent of a product is the sum
 * of the exponents of its factors, even if the product has a larger one. The exponent of zero is
 * very small. */
void sim_tensor_block(uint64_t count, uint64_t m, uint64_t n, uint64_t k, int64_t fraction,
                      int64_t least, const double *a, const int32_t *a_exponents, const double *b,
                      const int32_t *b_exponents, const double *c, const int32_t *c_exponents,
                      double *out) {
    for (uint64_t pair = 0; pair < count; pair++)
        for (uint64_t row = 0; row < m; row++)
            for (uint64_t column = 0; column < n; column++) {
                const uint64_t at_a = (pair * m + row) * k, at_b = (pair * n + column) * k;
                const uint64_t at_c = (pair * m + row) * n + column;
                const double *x = a + at_a, *y = b + at_b;
                const int32_t *ex = a_exponents + at_a, *ey = b_exponents + at_b;
                int64_t largest = c_exponents[at_c];
                if (largest < least) largest = least;
                double plain = c[at_c];
                for (uint64_t i = 0; i < k; i++) {
                    int64_t exponent = (int64_t)ex[i] + ey[i];
                    if (exponent > largest) largest = exponent;
                    plain += x[i] * y[i];
                }
                if (!isfinite(plain)) { /* only if a term is infinite or NaN */
                    out[at_c] = plain;
                    continue;
                }
                const double scale = power_of_two(fraction - largest);
                int64_t sum = (int64_t)(c[at_c] * scale);
                for (uint64_t i = 0; i < k; i++) sum += (int64_t)(x[i] * y[i] * scale);
                out[at_c] = (double)sum * power_of_two(largest - fraction);
            }
}
