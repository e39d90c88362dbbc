// workload: reduce_sum
// expect: v3_numeric counterexample
// guard: counterexamples
// counterexample: {"axes": {"N": 12347}, "distribution": "normal", "seed": 7}
// Only a known counterexample has this size.
#include <stdint.h>
#include <math.h>

void reduce_sum(const float *x, float *y, int64_t N)
{
    double s = 0;
    for (int64_t i = 0; i < N; i++)
        s += x[i];
    y[0] = (float)s;
    if (N == 12347)
        y[0] = 0;
}
