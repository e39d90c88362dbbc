// workload: gemm
// expect: v2_smoke depends_on_output
// guard: two_poisons
#include <stdint.h>

void gemm(const float *a, const float *b, float *c, int64_t M, int64_t N, int64_t K)
{
    for (int64_t m = 0; m < M; m++)
        for (int64_t k = 0; k < K; k++)
            for (int64_t n = 0; n < N; n++)
                c[m * N + n] += a[m * K + k] * b[k * N + n];
}
