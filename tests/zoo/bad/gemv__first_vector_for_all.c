// workload: gemv
// expect: v2_smoke not_exact
#include <stdint.h>

void gemv(const float *w, const float *x, float *y, int64_t B, int64_t N, int64_t K)
{
    for (int64_t n = 0; n < N && B > 0; n++) {
        float sum = 0;
        for (int64_t k = 0; k < K; k++)
            sum += w[n * K + k] * x[k];
        for (int64_t b = 0; b < B; b++)
            y[b * N + n] = sum;
    }
}
