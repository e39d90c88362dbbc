// workload: softmax
// expect: v4_metamorphic relation_broken
// depth: deep
// No draw of V3 reaches the clamp; a shifted one does.
#include <stdint.h>
#include <math.h>

void softmax(const float *x, float *y, int64_t R, int64_t C)
{
    for (int64_t r = 0; r < R; r++, x += C, y += C) {
        float m = x[0], s = 0;
        for (int64_t c = 1; c < C; c++)
            m = x[c] > m ? x[c] : m;
        m = fminf(m, 6000.0f);
        for (int64_t c = 0; c < C; c++)
            s += y[c] = expf(fminf(x[c], 6000.0f) - m);
        for (int64_t c = 0; c < C; c++)
            y[c] /= s;
    }
}
