// workload: reduce_sum
// expect: verified
// More precise than it needs to be.
#include <stdint.h>

void reduce_sum(const float *x, float *y, int64_t N)
{
    double s = 0;
    for (int64_t i = 0; i < N; i++)
        s += x[i];
    y[0] = (float)s;
}
