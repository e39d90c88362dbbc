// workload: transpose
// expect: verified
#include <stdint.h>

void transpose(const float *x, float *y, int64_t M, int64_t N)
{
#pragma omp parallel for collapse(2)
    for (int64_t m0 = 0; m0 < M; m0 += 16)
        for (int64_t n0 = 0; n0 < N; n0 += 16)
            for (int64_t m = m0; m < m0 + 16 && m < M; m++)
                for (int64_t n = n0; n < n0 + 16 && n < N; n++)
                    y[n * M + m] = x[m * N + n];
}
