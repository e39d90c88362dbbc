// workload: gemm
// expect: v3_numeric out_of_bound
// Both operands rounded to ten bits of mantissa, as tensor cores do unasked; small integers survive that.
#include <stdint.h>
#include <string.h>

static float shorter(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if (bits & 0x7F800000u)
        bits = (bits + 0x1000u) & 0xFFFFE000u;
    memcpy(&value, &bits, 4);
    return value;
}

void gemm(const float *a, const float *b, float *c, int64_t M, int64_t N, int64_t K)
{
    for (int64_t m = 0; m < M; m++)
        for (int64_t n = 0; n < N; n++) {
            float sum = 0;
            for (int64_t k = 0; k < K; k++)
                sum += shorter(a[m * K + k]) * shorter(b[k * N + n]);
            c[m * N + n] = sum;
        }
}
