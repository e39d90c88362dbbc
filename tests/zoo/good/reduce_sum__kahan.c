// workload: reduce_sum
// expect: verified
#include <stdint.h>
#include <math.h>

void reduce_sum(const float *x, float *y, int64_t N)
{
    float s = 0, c = 0;
    for (int64_t i = 0; i < N; i++) {
        float v = x[i] - c, t = s + v;
        c = (t - s) - v;
        s = t;
    }
    y[0] = s;
}
