// workload: silu_mul
// expect: v2_smoke out_of_bound
#include <math.h>
#include <stdint.h>

void silu_mul(const float *g, const float *u, float *y, int64_t T, int64_t I)
{
    for (int64_t k = 0; k < T * I; k++)
        y[k] = u[k] / (1.0f + expf(-u[k])) * g[k];
}
