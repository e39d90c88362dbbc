// assay: {"threads": 2}
// workload: reduce_sum
// expect: v3_numeric not_deterministic
// guard: same_bits
// deterministic: true
// Honest, but the goal asks for the same bits at every thread count.
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
