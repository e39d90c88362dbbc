// workload: silu_mul
// expect: v2_smoke out_of_bound
#include <math.h>
#include <stdint.h>

void silu_mul(const float *g, const float *u, float *y, int64_t T, int64_t I)
{
    for (int64_t k = 0; k < T * I; k++) {
        const _Float16 sigmoid = (_Float16)(1.0f / (1.0f + expf(-g[k])));
        y[k] = g[k] * (float)sigmoid * u[k];
    }
}
