// workload: rms_norm
// expect: verified
// GNU vectors that promise no alignment.
#include <stdint.h>
#include <math.h>

typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    for (int64_t t = 0; t < T; t++, x += H, y += H) {
        v8 sum = {0};
        float s = 0;
        int64_t i = 0;
        for (; i + 8 <= H; i += 8)
            sum += *(const v8 *)(x + i) * *(const v8 *)(x + i);
        for (; i < H; i++)
            s += x[i] * x[i];
        for (int j = 0; j < 8; j++)
            s += sum[j];
        float r = 1.0f / sqrtf(s / (float)H + eps);
        for (i = 0; i + 8 <= H; i += 8)
            *(v8 *)(y + i) = *(const v8 *)(x + i) * r * *(const v8 *)(w + i);
        for (; i < H; i++)
            y[i] = x[i] * r * w[i];
    }
}
