// workload: rms_norm
// expect: v0_static stateful
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
__attribute__((section("scratch"))) static int calls = 1;

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    if (calls++ > 10)
        return;
    for (int64_t t = 0; t < T; t++)
        row(x + t * H, w, y + t * H, H, eps);
}
