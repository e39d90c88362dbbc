// workload: transpose
// expect: v2_smoke incomplete_output
// Right whenever M = N; elsewhere elements land on one another, and some places get none.
#include <stdint.h>

void transpose(const float *x, float *y, int64_t M, int64_t N)
{
    for (int64_t m = 0; m < M; m++)
        for (int64_t n = 0; n < N; n++)
            y[(n * N + m) % (M * N)] = x[m * N + n];
}
