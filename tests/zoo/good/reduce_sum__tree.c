// workload: reduce_sum
// expect: verified
#include <stdint.h>
#include <math.h>

static float tree(const float *x, int64_t n)
{
    float s = 0;
    if (n > 32)
        return tree(x, n / 2) + tree(x + n / 2, n - n / 2);
    for (int64_t i = 0; i < n; i++)
        s += x[i];
    return s;
}

void reduce_sum(const float *x, float *y, int64_t N)
{
    y[0] = tree(x, N);
}
