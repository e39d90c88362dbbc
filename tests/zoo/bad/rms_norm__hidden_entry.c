// workload: rms_norm
// expect: v0_static wrong_signature
#include <stdint.h>

static __attribute__((used)) void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    (void)x, (void)w, (void)y, (void)T, (void)H, (void)eps;
}
