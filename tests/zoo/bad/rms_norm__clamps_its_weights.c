// workload: rms_norm
// expect: v4_metamorphic relation_broken
// guard: relations
// depth: deep
// Weights of a standard normal never meet the clamp; scaled by a power of two they do.
#include <stdint.h>
#include <math.h>

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    for (int64_t t = 0; t < T; t++) {
        float s = 0;
        for (int64_t i = 0; i < H; i++)
            s += x[t * H + i] * x[t * H + i];
        float r = 1.0f / sqrtf(s / (float)H + eps);
        for (int64_t i = 0; i < H; i++)
            y[t * H + i] = x[t * H + i] * r * fminf(fmaxf(w[i], -100.0f), 100.0f);
    }
}
