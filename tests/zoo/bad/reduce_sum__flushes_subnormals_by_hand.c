// workload: reduce_sum
// expect: v3_numeric out_of_bound
#include <stdint.h>
#include <math.h>

void reduce_sum(const float *x, float *y, int64_t N)
{
    double s = 0;
    for (int64_t i = 0; i < N; i++)
        s += fabsf(x[i]) < 1.1754944e-38f ? 0 : x[i];
    y[0] = (float)s;
}
