// workload: reduce_sum
// expect: v3_numeric out_of_bound
// Truncates the reduction beyond every smoke size.
#include <stdint.h>
#include <math.h>

void reduce_sum(const float *x, float *y, int64_t N)
{
    double s = 0;
    for (int64_t i = 0; i < N && i < 65536; i++)
        s += x[i];
    y[0] = (float)s;
}
