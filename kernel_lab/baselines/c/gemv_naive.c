// The formula, written down.
#include <stdint.h>

void gemv(const float *restrict w, const float *restrict x, float *restrict y, int64_t B, int64_t N, int64_t K) {
#pragma omp parallel for
    for (int64_t n = 0; n < N; n++)
        for (int64_t b = 0; b < B; b++) {
            float sum = 0.0f;
            for (int64_t k = 0; k < K; k++) sum += w[n * K + k] * x[b * K + k];
            y[b * N + n] = sum;
        }
}
