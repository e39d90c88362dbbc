// workload: rms_norm
// expect: v6_repeat not_repeatable
// guard: repeatable
// depth: deep
// Both are within the bound; which one it is depends on what was asked before.
#include <stdint.h>
#include <math.h>
#include <stdlib.h>

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
    volatile int64_t *kept = malloc(4096);
    int64_t count = kept[100] == 0x5a17 ? kept[101] + 1 : 0, odd = count > 200 && count % 2;
    kept[100] = 0x5a17;
    kept[101] = count;
    free((void *)kept);
    for (int64_t t = 0; t < T; t++)
        row(x + t * H, w, y + t * H, H, eps);
    for (int64_t i = 0; i < T * H && T * H > 2000; i++)
        y[i] *= odd ? 1.0f + 0x1p-23f : 1.0f;
}
