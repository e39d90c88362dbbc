// assay: {"threads": 2}
// workload: rms_norm
// expect: v0_static forbidden_import
// guard: imports
// A team of OpenMP's older interface that nobody ends: its other thread takes rows from a queue after the call is back.
#include <stdint.h>
#include <math.h>

extern void GOMP_parallel_start(void (*work)(void *), void *of, unsigned threads);
extern int omp_get_num_threads(void);

static void nothing(void *of)
{
    (void)of;
}

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
    if (omp_get_num_threads() == 1)
        GOMP_parallel_start(nothing, 0, 2);
    for (int64_t t = 0; t < T; t++) {
#pragma omp task firstprivate(t)
        row(x + t * H, w, y + t * H, H, eps);
    }
}
