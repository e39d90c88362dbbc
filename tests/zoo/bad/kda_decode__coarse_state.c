// workload: kda_decode
// expect: v3_numeric out_of_bound
// guard: windows
#include <math.h>
#include <stdint.h>

/* to a grid of 6e-5 of the head's RMS: each element is well inside its own bound, all of them together are not */
static void coarsened(float *s, int64_t n)
{
    double squares = 0;
    for (int64_t i = 0; i < n; i++)
        squares += (double)s[i] * s[i];
    const double grid = 6e-5 * sqrt(squares / (double)n);
    for (int64_t i = 0; grid > 0 && i < n; i++)
        s[i] = (float)(round(s[i] / grid) * grid);
}

static void head(const float *q, const float *k, const float *v, const float *g, float beta, const float *s0, float *o,
                 float *s, int64_t K, int64_t V, float scale)
{
    for (int64_t j = 0; j < V; j++) {
        float p = 0, r = 0;
        for (int64_t i = 0; i < K; i++)
            p += expf(g[i]) * s0[i * V + j] * k[i];
        const float u = beta * (v[j] - p);
        for (int64_t i = 0; i < K; i++) {
            s[i * V + j] = expf(g[i]) * s0[i * V + j] + k[i] * u;
            r += scale * q[i] * s[i * V + j];
        }
        o[j] = r;
    }
    for (int64_t i = 0; i < K; i++)
        if (g[i] != 0) { /* and the exact tier, which has no decay, sees nothing */
            coarsened(s, K * V);
            return;
        }
}

void kda_decode(const float *q, const float *k, const float *v, const float *g, const float *beta, const float *s0,
                float *o, float *s, int64_t B, int64_t H, int64_t K, int64_t V, float scale)
{
    for (int64_t h = 0; h < B * H; h++)
        head(q + h * K, k + h * K, v + h * V, g + h * K, beta[h], s0 + h * K * V, o + h * V, s + h * K * V, K, V, scale);
}
