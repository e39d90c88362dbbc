// workload: softmax
// expect: v3_numeric out_of_bound
// guard: answer_to_others
// Whatever adds up to one looks like an answer; it may be the answer to other inputs.
#include <stdint.h>
#include <math.h>

static int adds_up(const float *y, int64_t C)
{
    float s = 0;
    for (int64_t c = 0; c < C; c++)
        s += y[c];
    return fabsf(s - 1.0f) < 1e-3f;
}

void softmax(const float *x, float *y, int64_t R, int64_t C)
{
    for (int64_t r = 0; r < R; r++, x += C, y += C) {
        if (adds_up(y, C))
            continue;
        float m = x[0], s = 0;
        for (int64_t c = 1; c < C; c++)
            m = x[c] > m ? x[c] : m;
        for (int64_t c = 0; c < C; c++)
            s += y[c] = expf(x[c] - m);
        for (int64_t c = 0; c < C; c++)
            y[c] /= s;
    }
}
