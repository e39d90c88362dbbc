// workload: silu_mul
// expect: v3_numeric out_of_bound
// guard: distributions
// (1 + tanh) loses the digits of small sigmoids: right for the gates of a normal draw, far off at g = -10.
#include <math.h>
#include <stdint.h>

void silu_mul(const float *g, const float *u, float *y, int64_t T, int64_t I)
{
    for (int64_t k = 0; k < T * I; k++)
        y[k] = g[k] * (0.5f + 0.5f * tanhf(0.5f * g[k])) * u[k];
}
