// Blocks of the flat array, so that a single long row is shared among threads too; sigmoids wait in the first-level cache.
#include <math.h>
#include <stdint.h>

enum { BLOCK = 1024 };

static void block(const float *restrict g, const float *restrict u, float *restrict y, int64_t n) {
    float powers[BLOCK];
    for (int64_t k = 0; k < n; k++) powers[k] = expf(-g[k]);
    for (int64_t k = 0; k < n; k++) y[k] = g[k] * u[k] / (1.0f + powers[k]);
}

void silu_mul(const float *restrict g, const float *restrict u, float *restrict y, int64_t T, int64_t I) {
    const int64_t all = T * I;
#pragma omp parallel for if (all > 16384)
    for (int64_t n = 0; n < all; n += BLOCK) block(g + n, u + n, y + n, all - n < BLOCK ? all - n : BLOCK);
}
