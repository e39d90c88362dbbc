// workload: rms_norm
// expect: v3_numeric wrote_input
// guard: read_only_inputs
// Writes, then puts back: another thread could see it.
#include <stdint.h>
#include <math.h>

static void row(const float *x, const float *w, float *y, int64_t H, float eps)
{
    float s = 0;
    for (int64_t i = 0; i < H; i++)
        s += x[i] * x[i];
    float r = 1.0f / sqrtf(s / (float)H + eps);
    for (int64_t i = 0; i < H; i++)
        y[i] = x[i] * r * w[i];
}

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    for (int64_t t = 0; t < T; t++)
        row(x + t * H, w, y + t * H, H, eps);
    if (T) {
        volatile float *scratch = (volatile float *)(uintptr_t)x;
        float kept = scratch[0];
        scratch[0] = 1;
        scratch[0] = kept;
    }
}
