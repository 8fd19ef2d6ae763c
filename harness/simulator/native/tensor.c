/* The sum that a tensor core makes of one block of products. */
#include <math.h>
#include <stdint.h>
#include <string.h>

static double power_of_two(int64_t exponent) {
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

/* For each of `count` pairs of an m x k and an n x k matrix (rows of k numbers, exact in double
 * precision, with the exponents of their significands) and an m x n matrix c, fills `out` with the
 * sums of the products of rows, and c: every term is cut off at `fraction` bits below the largest
 * exponent among them (at least `least`), and the sum of what is left is exact. A product's
 * exponent is the sum of those of its factors, whatever its own size; that of zero is very small. */
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
                if (!isfinite(plain)) { /* only from infinite or NaN terms */
                    out[at_c] = plain;
                    continue;
                }
                const double scale = power_of_two(fraction - largest);
                int64_t sum = (int64_t)(c[at_c] * scale);
                for (uint64_t i = 0; i < k; i++) sum += (int64_t)(x[i] * y[i] * scale);
                out[at_c] = (double)sum * power_of_two(largest - fraction);
            }
}
