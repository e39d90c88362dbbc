// The formula, written down: y is written in order.
#include <stdint.h>

void transpose(const float *restrict x, float *restrict y, int64_t M, int64_t N) {
#pragma omp parallel for
    for (int64_t n = 0; n < N; n++)
        for (int64_t m = 0; m < M; m++) y[n * M + m] = x[m * N + n];
}
