// workload: rms_norm
// expect: v3_numeric out_of_bound
// Right for the first 32,768 elements.
#include <stdint.h>
#include <math.h>

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    for (int64_t t = 0; t < T; t++) {
        float s = 0;
        for (int64_t i = 0; i < H; i++)
            s += x[(t * H + i) & 32767] * x[(t * H + i) & 32767];
        float r = 1.0f / sqrtf(s / (float)H + eps);
        for (int64_t i = 0; i < H; i++)
            y[t * H + i] = x[(t * H + i) & 32767] * r * w[i];
    }
}
