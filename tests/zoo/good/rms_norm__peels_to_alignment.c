// workload: rms_norm
// expect: verified
// Elements before the first cache line and after the last one are done one by one.
#include <stdint.h>
#include <math.h>

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    for (int64_t t = 0; t < T; t++, x += H, y += H) {
        float part[16] = {0}, s = 0;
        int64_t i = 0;
        for (; i < H && (uintptr_t)(x + i) % 64; i++)
            s += x[i] * x[i];
        for (; i + 16 <= H; i += 16) {
            const float *line = __builtin_assume_aligned(x + i, 64);
            for (int j = 0; j < 16; j++)
                part[j] += line[j] * line[j];
        }
        for (; i < H; i++)
            s += x[i] * x[i];
        for (int j = 0; j < 16; j++)
            s += part[j];
        float r = 1.0f / sqrtf(s / (float)H + eps);
        for (int64_t k = 0; k < H; k++)
            y[k] = x[k] * r * w[k];
    }
}
