// assay: {"threads": 2}
// workload: reduce_sum
// expect: verified
// Several bit patterns above one thread: honest, unless the goal asks for determinism.
#include <stdint.h>
#include <math.h>

void reduce_sum(const float *x, float *y, int64_t N)
{
    float s = 0;
#pragma omp parallel for simd reduction(+ : s)
    for (int64_t i = 0; i < N; i++)
        s += x[i];
    y[0] = s;
}
