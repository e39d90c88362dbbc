// workload: softmax
// expect: verified
// One pass for maximum and sum.
#include <stdint.h>
#include <math.h>

void softmax(const float *x, float *y, int64_t R, int64_t C)
{
    for (int64_t r = 0; r < R; r++, x += C, y += C) {
        float m = -INFINITY, s = 0;
        for (int64_t i = 0; i < C; i++) {
            float next = x[i] > m ? x[i] : m;
            s = s * expf(m - next) + expf(x[i] - next);
            m = next;
        }
        for (int64_t i = 0; i < C; i++)
            y[i] = expf(x[i] - m) / s;
    }
}
