// workload: softmax
// expect: v2_smoke out_of_bound
#include <stdint.h>
#include <math.h>

static float quick(float v) /* (1 + v/256)^256 */
{
    float p = 1.0f + v / 256.0f;
    p = p > 0 ? p : 0;
    for (int i = 0; i < 8; i++)
        p *= p;
    return p;
}

static void row(const float *x, float *y, int64_t C)
{
    float m = x[0], s = 0;
    for (int64_t i = 1; i < C; i++)
        m = x[i] > m ? x[i] : m;
    for (int64_t i = 0; i < C; i++)
        s += y[i] = quick(x[i] - m);
    for (int64_t i = 0; i < C; i++)
        y[i] /= s;
}

void softmax(const float *x, float *y, int64_t R, int64_t C)
{
    for (int64_t r = 0; r < R; r++)
        row(x + r * C, y + r * C, C);
}
