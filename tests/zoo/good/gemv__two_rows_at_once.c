// workload: gemv
// expect: verified
#include <stdint.h>

void gemv(const float *w, const float *x, float *y, int64_t B, int64_t N, int64_t K)
{
#pragma omp parallel for
    for (int64_t n = 0; n < N; n += 2)
        for (int64_t b = 0; b < B; b++) {
            const float *one = w + n * K, *other = n + 1 < N ? one + K : one;
            float sum = 0, next = 0;
            for (int64_t k = 0; k < K; k++) {
                sum += one[k] * x[b * K + k];
                next += other[k] * x[b * K + k];
            }
            y[b * N + n] = sum;
            if (n + 1 < N)
                y[b * N + n + 1] = next;
        }
}
