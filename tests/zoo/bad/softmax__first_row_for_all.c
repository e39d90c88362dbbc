// workload: softmax
// expect: v2_smoke out_of_bound
#include <stdint.h>
#include <math.h>

static void row(const float *x, float *y, int64_t C)
{
    float m = x[0], s = 0;
    for (int64_t i = 1; i < C; i++)
        m = x[i] > m ? x[i] : m;
    for (int64_t i = 0; i < C; i++)
        s += y[i] = expf(x[i] - m);
    for (int64_t i = 0; i < C; i++)
        y[i] /= s;
}

void softmax(const float *x, float *y, int64_t R, int64_t C)
{
    for (int64_t r = 0; r < R; r++)
        row(x, y + r * C, C);
}
