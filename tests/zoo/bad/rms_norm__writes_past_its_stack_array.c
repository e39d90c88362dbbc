// workload: rms_norm
// expect: v7_sanitizers undefined_behaviour
// depth: deep
// The ninth of eight partial sums: what it overwrites happens to be padding.
#include <stdint.h>
#include <math.h>

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    for (int64_t t = 0; t < T; t++) {
        volatile float part[9 + 7];
        volatile float *eight = part;
        float s = 0;
        for (int i = 0; i < 8; i++)
            eight[i] = 0;
        for (int64_t i = 0; i < H; i++)
            eight[i % 8] += x[t * H + i] * x[t * H + i];
        eight[16] = 0;
        for (int i = 0; i < 8; i++)
            s += eight[i];
        float r = 1.0f / sqrtf(s / (float)H + eps);
        for (int64_t i = 0; i < H; i++)
            y[t * H + i] = x[t * H + i] * r * w[i];
    }
}
