// workload: gemv
// expect: v2_smoke not_exact
#include <stdint.h>

void gemv(const float *w, const float *x, float *y, int64_t B, int64_t N, int64_t K)
{
    const int64_t most = K < 1024 ? K : 1024;
    for (int64_t b = 0; b < B; b++)
        for (int64_t n = 0; n < N; n++) {
            float sum = 0;
            for (int64_t k = 0; k < most; k++)
                sum += w[n * K + k] * x[b * K + k];
            y[b * N + n] = sum;
        }
}
