// workload: rms_norm
// expect: v4_metamorphic relation_broken
// depth: deep
// Rows are taken eight at a time, and a remainder is forgotten unless there are few or many.
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
    int64_t rows = T > 5 && T < 60 && T != 17 ? T / 8 * 8 : T;
    for (int64_t t = 0; t < rows; t++)
        row(x + t * H, w, y + t * H, H, eps);
}
