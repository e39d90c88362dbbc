// workload: rms_norm
// expect: v0_static forbidden_import
// Affinity is inherited by every thread that starts later.
#include <stdint.h>
#include <math.h>
#define _GNU_SOURCE
#include <sched.h>

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
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    sched_setaffinity(0, sizeof set, &set);
    for (int64_t t = 0; t < T; t++)
        row(x + t * H, w, y + t * H, H, eps);
}
