// assay: {"flags": ["-ffast-math", "-mprefer-vector-width=512"], "threads": 1}
// workload: silu_mul
// expect: verified
// The compiler vectorises this with libmvec's exponential.
#include <math.h>
#include <stdint.h>

void silu_mul(const float *restrict g, const float *restrict u, float *restrict y, int64_t T, int64_t I)
{
    for (int64_t k = 0; k < T * I; k++)
        y[k] = g[k] / (1.0f + expf(-g[k])) * u[k];
}
