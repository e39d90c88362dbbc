// workload: softmax
// expect: v3_numeric out_of_bound
// A masked NaN is still a wrong answer.
#include <stdint.h>
#include <math.h>

void softmax(const float *x, float *y, int64_t R, int64_t C)
{
    for (int64_t r = 0; r < R; r++) {
        float s = 0;
        for (int64_t i = 0; i < C; i++)
            s += y[r * C + i] = expf(x[r * C + i]);
        for (int64_t i = 0; i < C; i++) {
            float v = y[r * C + i] / s;
            y[r * C + i] = v == v ? v : 0;
        }
    }
}
