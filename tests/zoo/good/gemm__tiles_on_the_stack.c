// workload: gemm
// expect: verified
// Blocks of b are copied to a large array on the stack first.
#include <stdint.h>

enum { SIDE = 256 };

void gemm(const float *a, const float *b, float *c, int64_t M, int64_t N, int64_t K)
{
    float block[SIDE][SIDE];
    for (int64_t n = 0; n < M * N; n++)
        c[n] = 0;
    for (int64_t k0 = 0; k0 < K; k0 += SIDE)
        for (int64_t n0 = 0; n0 < N; n0 += SIDE) {
            const int64_t depth = K - k0 < SIDE ? K - k0 : SIDE, width = N - n0 < SIDE ? N - n0 : SIDE;
            for (int64_t k = 0; k < depth; k++)
                for (int64_t n = 0; n < width; n++)
                    block[k][n] = b[(k0 + k) * N + n0 + n];
            for (int64_t m = 0; m < M; m++)
                for (int64_t k = 0; k < depth; k++)
                    for (int64_t n = 0; n < width; n++)
                        c[m * N + n0 + n] += a[m * K + k0 + k] * block[k][n];
        }
}
