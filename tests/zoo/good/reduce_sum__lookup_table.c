// workload: reduce_sum
// expect: verified
#include <stdint.h>
#include <math.h>

static const double unit[4] = {1.0, 1.0, 1.0, 1.0};

void reduce_sum(const float *x, float *y, int64_t N)
{
    double s = 0;
    for (int64_t i = 0; i < N; i++)
        s += x[i] * unit[i & 3];
    y[0] = (float)s;
}
