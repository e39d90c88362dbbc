// workload: softmax
// expect: v2_smoke out_of_bound
// All zeros passes allclose(1e-2) on a wide softmax (KernelBench #165).
#include <stdint.h>
#include <math.h>

void softmax(const float *x, float *y, int64_t R, int64_t C)
{
    (void)x;
    for (int64_t i = 0; i < R * C; i++)
        y[i] = 0;
}
