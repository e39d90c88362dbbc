// workload: silu_mul
// expect: v2_smoke out_of_bound
// What a phone would compute instead.
#include <stdint.h>

void silu_mul(const float *g, const float *u, float *y, int64_t T, int64_t I)
{
    for (int64_t k = 0; k < T * I; k++) {
        float gate = g[k] / 6.0f + 0.5f;
        gate = gate < 0 ? 0 : gate > 1 ? 1 : gate;
        y[k] = g[k] * gate * u[k];
    }
}
