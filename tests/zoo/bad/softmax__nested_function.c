// workload: softmax
// expect: v0_static forbidden_construct
// Its trampoline needs an executable stack.
#include <stdint.h>
#include <math.h>

static __attribute__((noipa)) float apply(float (*f)(float), float v) { return f(v); }

void softmax(const float *x, float *y, int64_t R, int64_t C)
{
    for (int64_t r = 0; r < R; r++, x += C, y += C) {
        float m = x[0], s = 0;
        float shifted(float v) { return expf(v - m); }
        for (int64_t i = 1; i < C; i++)
            m = x[i] > m ? x[i] : m;
        for (int64_t i = 0; i < C; i++)
            s += y[i] = apply(shifted, x[i]);
        for (int64_t i = 0; i < C; i++)
            y[i] /= s;
    }
}
