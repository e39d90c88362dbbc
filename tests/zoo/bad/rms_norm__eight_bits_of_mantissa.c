// workload: rms_norm
// expect: v2_smoke out_of_bound
// bf16.
#include <stdint.h>
#include <math.h>

static float bf16(float v)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &v, 4);
    bits = (bits + 0x8000u) & 0xffff0000u;
    __builtin_memcpy(&v, &bits, 4);
    return v;
}

static void row(const float *x, const float *w, float *y, int64_t H, float eps)
{
    float s = 0;
    for (int64_t i = 0; i < H; i++)
        s += x[i] * x[i];
    float r = 1.0f / sqrtf(s / (float)H + eps);
    for (int64_t i = 0; i < H; i++)
        y[i] = bf16(x[i]) * r * w[i];
}

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    for (int64_t t = 0; t < T; t++)
        row(x + t * H, w, y + t * H, H, eps);
}
