// workload: rms_norm
// expect: verified
// Pointers need relocation, so the table lies in .data.rel.ro, which is constant.
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
typedef void rows(const float *, const float *, float *, int64_t, float);

static rows *const by_kind[2] = {row, row};

rows *chosen(int64_t H) { return by_kind[H & 1]; }

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    for (int64_t t = 0; t < T; t++)
        chosen(H)(x + t * H, w, y + t * H, H, eps);
}
