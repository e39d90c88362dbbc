// workload: rms_norm
// expect: v2_smoke depends_on_output
// guard: two_poisons
// Clears by multiplying: NaN times zero is NaN.
#include <stdint.h>
#include <math.h>


void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    for (int64_t i = 0; i < T * H; i++)
        y[i] *= 0.0f;
    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 0; i < H; i++) {
            float s = 0;
            for (int64_t j = 0; j < H; j++)
                s += x[t * H + j] * x[t * H + j];
            y[t * H + i] += x[t * H + i] / sqrtf(s / (float)H + eps) * w[i];
        }
}
