// workload: rms_norm
// expect: v2_smoke out_of_bound
// Products in fp16: eleven bits, and nothing beyond 65504.
#include <stdint.h>
#include <math.h>

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    for (int64_t t = 0; t < T; t++) {
        float s = 0;
        for (int64_t i = 0; i < H; i++)
            s += x[t * H + i] * x[t * H + i];
        float r = 1.0f / sqrtf(s / (float)H + eps);
        for (int64_t i = 0; i < H; i++)
            y[t * H + i] = (float)(_Float16)(x[t * H + i] * r) * w[i];
    }
}
