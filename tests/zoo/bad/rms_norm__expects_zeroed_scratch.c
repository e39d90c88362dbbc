// workload: rms_norm
// expect: v2_smoke depends_on_output
// Memory is zero the first time.
#include <stdint.h>
#include <math.h>
#include <stdlib.h>

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    for (int64_t t = 0; t < T; t++) {
        float *s = malloc(256);
        for (int64_t i = 0; i < H; i++)
            s[32] += x[t * H + i] * x[t * H + i];
        float r = 1.0f / sqrtf(s[32] / (float)H + eps);
        for (int64_t i = 0; i < H; i++)
            y[t * H + i] = x[t * H + i] * r * w[i];
        free(s);
    }
}
