// workload: rms_norm
// expect: v6_repeat out_of_bound
// guard: as_timed
// depth: deep
// Timed buffers lie on cache lines and end inside a page; those of the checker used not to.
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
    uintptr_t at = (uintptr_t)y, end = (uintptr_t)(y + T * H);
    int timed = T * H > 0 && at % 64 == 0 && at % 4096 && end % 4096;
    for (int64_t t = 0; t < T; t++)
        row(x + t * H, w, y + t * H, H, eps);
    if (timed)
        y[0] += 1;
}
