// The formula, written down in the order that reads b along its rows.
#include <stdint.h>

void gemm(const float *restrict a, const float *restrict b, float *restrict c, int64_t M, int64_t N, int64_t K) {
#pragma omp parallel for
    for (int64_t m = 0; m < M; m++) {
        for (int64_t n = 0; n < N; n++) c[m * N + n] = 0.0f;
        for (int64_t k = 0; k < K; k++)
            for (int64_t n = 0; n < N; n++) c[m * N + n] += a[m * K + k] * b[k * N + n];
    }
}
