// workload: rms_norm
// expect: verified
// Contracted by hand: one rounding where plain C has two.
#include <stdint.h>
#include <math.h>

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    for (int64_t t = 0; t < T; t++, x += H, y += H) {
        float s = 0;
        for (int64_t i = 0; i < H; i++)
            s = fmaf(x[i], x[i], s);
        float r = 1.0f / sqrtf(s / (float)H + eps);
        for (int64_t i = 0; i < H; i++)
            y[i] = x[i] * (r * w[i]);
    }
}
