// workload: rms_norm
// expect: v2_smoke out_of_bound
#include <stdint.h>
#include <math.h>

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    (void)w, (void)eps;
    for (int64_t i = 0; i < T * H; i++)
        y[i] = x[i];
}
