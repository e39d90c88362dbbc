// workload: silu_mul
// expect: verified
// e^-|g| on either side of zero; table-free and branch-free.
#include <math.h>
#include <stdint.h>

void silu_mul(const float *g, const float *u, float *y, int64_t T, int64_t I)
{
#pragma omp parallel for
    for (int64_t k = 0; k < T * I; k++) {
        const float power = expf(-fabsf(g[k]));
        y[k] = g[k] * u[k] * ((g[k] < 0 ? power : 1.0f) / (1.0f + power));
    }
}
