// workload: transpose
// expect: v2_smoke incomplete_output
#include <stdint.h>

void transpose(const float *x, float *y, int64_t M, int64_t N)
{
    for (int64_t m = 0; m < M; m++)
        for (int64_t n = 0; n < N - N % 16; n++)
            y[n * M + m] = x[m * N + n];
}
