// workload: softmax
// expect: verified
#include <stdint.h>
#include <math.h>

void softmax(const float *x, float *y, int64_t R, int64_t C)
{
    float e[65536];
    for (int64_t r = 0; r < R; r++, x += C, y += C) {
        float m = x[0], s = 0;
        for (int64_t i = 1; i < C; i++)
            m = x[i] > m ? x[i] : m;
        for (int64_t i = 0; i < C; i++) {
            e[i & 65535] = expf(x[i] - m);
            s += e[i & 65535];
        }
        for (int64_t i = 0; i < C; i++)
            y[i] = (C <= 65536 ? e[i] : expf(x[i] - m)) / s;
    }
}
