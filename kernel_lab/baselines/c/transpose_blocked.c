// Square blocks whose rows stay in the first-level cache while they are read across.
#include <stdint.h>

enum { BLOCK = 32 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

void transpose(const float *restrict x, float *restrict y, int64_t M, int64_t N) {
#pragma omp parallel for collapse(2) if (M * N > 65536)
    for (int64_t n0 = 0; n0 < N; n0 += BLOCK)
        for (int64_t m0 = 0; m0 < M; m0 += BLOCK)
            for (int64_t n = n0; n < least(n0 + BLOCK, N); n++)
                for (int64_t m = m0; m < least(m0 + BLOCK, M); m++) y[n * M + m] = x[m * N + n];
}
