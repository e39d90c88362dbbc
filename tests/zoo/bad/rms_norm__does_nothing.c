// workload: rms_norm
// expect: v2_smoke incomplete_output
// guard: written_everywhere
#include <stdint.h>
#include <math.h>

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    (void)x, (void)w, (void)y, (void)T, (void)H, (void)eps;
}
