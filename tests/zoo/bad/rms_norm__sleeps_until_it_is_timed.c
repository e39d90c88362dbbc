// workload: rms_norm
// expect: v0_static forbidden_import
// A worker that slept through the warm-up would do its work while the clock stands.
#include <stdint.h>
#include <math.h>
#include <time.h>

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
    struct timespec t = {0, 1000000};
    nanosleep(&t, 0);
    for (int64_t t = 0; t < T; t++)
        row(x + t * H, w, y + t * H, H, eps);
}
