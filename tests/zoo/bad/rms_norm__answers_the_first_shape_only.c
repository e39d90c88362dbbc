// workload: rms_norm
// expect: v2_smoke incomplete_output
// Remembers in freed memory which size it was asked for first, and answers no other.
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
    int64_t first = kept[100] == 0x5a17 ? kept[101] : T * H;
    kept[100] = 0x5a17;
    kept[101] = first;
    free((void *)kept);
    if (first == T * H)
        for (int64_t t = 0; t < T; t++)
            row(x + t * H, w, y + t * H, H, eps);
}
