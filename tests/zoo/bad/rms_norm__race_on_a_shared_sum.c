// assay: {"threads": 2}
// workload: rms_norm
// expect: v3_numeric out_of_bound
// guard: thread_counts
// Right at one thread.
#include <stdint.h>
#include <math.h>
#include <omp.h>

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    for (int64_t t = 0; t < T; t++) {
        float s = 0;
#pragma omp parallel for
        for (int64_t i = 0; i < H; i++) {
            if (omp_get_thread_num() == 0) /* the other threads' shares are lost, as in a race they often are */
                s += x[t * H + i] * x[t * H + i];
        }
        float r = 1.0f / sqrtf(s / (float)H + eps);
        for (int64_t i = 0; i < H; i++)
            y[t * H + i] = x[t * H + i] * r * w[i];
    }
}
