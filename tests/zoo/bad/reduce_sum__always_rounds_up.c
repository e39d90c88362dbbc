// workload: reduce_sum
// expect: v4_metamorphic relation_broken
// depth: deep
// One last place too high is far inside the bound of a long sum; it does not change sign with its input.
#include <stdint.h>
#include <math.h>

void reduce_sum(const float *x, float *y, int64_t N)
{
    float s = 0;
    for (int64_t i = 0; i < N; i++)
        s += x[i];
    y[0] = s != 0 && N > 5000 ? nextafterf(s, INFINITY) : s;
}
