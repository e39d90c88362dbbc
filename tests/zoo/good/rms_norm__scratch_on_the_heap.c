// workload: rms_norm
// expect: verified
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    float *scratch = malloc((size_t)(H > 0 ? H : 1) * sizeof *scratch);
    for (int64_t t = 0; t < T; t++) {
        row(x + t * H, w, scratch, H, eps);
        memcpy(y + t * H, scratch, (size_t)H * sizeof *scratch);
    }
    free(scratch);
}
