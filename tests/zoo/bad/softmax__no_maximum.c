// workload: softmax
// expect: v3_numeric non_finite
// guard: finite_pattern
// inf/inf as soon as an input passes 88.
#include <stdint.h>
#include <math.h>

void softmax(const float *x, float *y, int64_t R, int64_t C)
{
    for (int64_t r = 0; r < R; r++) {
        float s = 0;
        for (int64_t i = 0; i < C; i++)
            s += y[r * C + i] = expf(x[r * C + i]);
        for (int64_t i = 0; i < C; i++)
            y[r * C + i] /= s;
    }
}
