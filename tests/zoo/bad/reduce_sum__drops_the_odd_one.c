// workload: reduce_sum
// expect: v2_smoke not_exact
// guard: exact
#include <stdint.h>
#include <math.h>

void reduce_sum(const float *x, float *y, int64_t N)
{
    double s = 0;
    for (int64_t i = 0; i < (N & ~1); i++)
        s += x[i];
    y[0] = (float)s;
}
