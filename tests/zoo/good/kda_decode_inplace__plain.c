// workload: kda_decode_inplace
// expect: verified
#include <math.h>
#include <stdint.h>

static void head(const float *q, const float *k, const float *v, const float *g, float beta, float *s, float *o,
                 int64_t K, int64_t V, float scale)
{
    for (int64_t j = 0; j < V; j++) {
        float p = 0, r = 0;
        for (int64_t i = 0; i < K; i++)
            p += expf(g[i]) * s[i * V + j] * k[i];
        const float u = beta * (v[j] - p);
        for (int64_t i = 0; i < K; i++) {
            const float x = expf(g[i]) * s[i * V + j] + k[i] * u;
            s[i * V + j] = x;
            r += scale * q[i] * x;
        }
        o[j] = r;
    }
}

void kda_decode_inplace(const float *q, const float *k, const float *v, const float *g, const float *beta, float *s,
                float *o, int64_t B, int64_t H, int64_t K, int64_t V, float scale)
{
    for (int64_t h = 0; h < B * H; h++)
        head(q + h * K, k + h * K, v + h * V, g + h * K, beta[h], s + h * K * V, o + h * V, K, V, scale);
}
