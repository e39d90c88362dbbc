// workload: softmax
// expect: v2_smoke out_of_bound
// Products as a tensor core in tf32 would have them.
#include <stdint.h>
#include <math.h>
#include <string.h>

static float tf32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    bits = (bits + 0x1000) & ~0x1fffu;
    memcpy(&x, &bits, 4);
    return x;
}

void softmax(const float *x, float *y, int64_t R, int64_t C)
{
    for (int64_t r = 0; r < R; r++, x += C, y += C) {
        float m = x[0], s = 0;
        for (int64_t c = 1; c < C; c++)
            m = x[c] > m ? x[c] : m;
        for (int64_t c = 0; c < C; c++)
            s += y[c] = tf32(expf(x[c] - m));
        for (int64_t c = 0; c < C; c++)
            y[c] /= s;
    }
}
