// assay: {"threads": 2}
// workload: reduce_sum
// expect: verified
// libgomp's lock word is the one writable datum allowed.
#include <stdint.h>
#include <math.h>

void reduce_sum(const float *x, float *y, int64_t N)
{
    float s = 0;
#pragma omp parallel
    {
        float mine = 0;
#pragma omp for nowait
        for (int64_t i = 0; i < N; i++)
            mine += x[i];
#pragma omp critical(add)
        s += mine;
    }
    y[0] = s;
}
