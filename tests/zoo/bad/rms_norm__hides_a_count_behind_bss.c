// workload: rms_norm
// expect: v0_static stateful
// guard: writable_references
// The last page of the data segment has room that no section owns.
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
extern int _end[] __attribute__((visibility("hidden")));

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    if (_end[8]++ > 100000)
        return;
    for (int64_t t = 0; t < T; t++)
        row(x + t * H, w, y + t * H, H, eps);
}
