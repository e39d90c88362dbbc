// workload: rms_norm
// expect: v6_repeat non_finite
// guard: more_threads
// depth: deep
// Rows are shared out between two threads; a third one is given none and others keep theirs.
#include <stdint.h>
#include <math.h>
#include <omp.h>

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
#pragma omp parallel
    {
        int64_t threads = omp_get_num_threads(), me = omp_get_thread_num();
        int64_t share = threads == 1 ? T : (T + 1) / 2 - (threads > 2);
        for (int64_t t = me * share; t < (me + 1) * share && t < T && me < 2; t++)
            row(x + t * H, w, y + t * H, H, eps);
    }
}
