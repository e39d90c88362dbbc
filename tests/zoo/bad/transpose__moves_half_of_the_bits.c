// workload: transpose
// expect: v3_numeric out_of_bound
// guard: bound
// Small integers survive the trip through 16 bits, so the exact tier alone would not see it.
#include <stdint.h>
#include <string.h>

void transpose(const float *x, float *y, int64_t M, int64_t N)
{
    for (int64_t m = 0; m < M; m++)
        for (int64_t n = 0; n < N; n++) {
            uint32_t bits;
            memcpy(&bits, &x[m * N + n], 4);
            bits &= 0xFFFF0000u;
            memcpy(&y[n * M + m], &bits, 4);
        }
}
