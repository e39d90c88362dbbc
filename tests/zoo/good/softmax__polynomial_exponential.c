// workload: softmax
// expect: verified
// 2^n by a shift of a negative number, as exponentials are written everywhere; the rest by a polynomial.
#include <stdint.h>
#include <math.h>
#include <string.h>

static float exponential(float x)
{
    if (x < -87.0f)
        return expf(x);
    float n = rintf(x * 1.44269504f);
    float r = fmaf(n, -0.693145752f, x);
    r = fmaf(n, -1.42860677e-6f, r);
    float p = 1.98412698e-4f;
    p = fmaf(p, r, 1.38888889e-3f);
    p = fmaf(p, r, 8.33333333e-3f);
    p = fmaf(p, r, 4.16666667e-2f);
    p = fmaf(p, r, 1.66666667e-1f);
    p = fmaf(p, r, 0.5f);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    int32_t bits;
    memcpy(&bits, &p, 4);
    bits += (int32_t)n << 23;
    memcpy(&p, &bits, 4);
    return p;
}

void softmax(const float *x, float *y, int64_t R, int64_t C)
{
    for (int64_t r = 0; r < R; r++, x += C, y += C) {
        float m = x[0], s = 0;
        for (int64_t c = 1; c < C; c++)
            m = x[c] > m ? x[c] : m;
        for (int64_t c = 0; c < C; c++)
            s += y[c] = exponential(x[c] - m);
        for (int64_t c = 0; c < C; c++)
            y[c] *= 1.0f / s;
    }
}
