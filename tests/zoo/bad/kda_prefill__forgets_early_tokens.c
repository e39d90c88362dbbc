// workload: kda_prefill
// expect: v2_smoke not_exact
#include <math.h>
#include <stdint.h>
#include <string.h>

static void token(const float *q, const float *k, const float *v, const float *g, float beta, float *s, float *o, int64_t K,
                  int64_t V, float scale)
{
    for (int64_t j = 0; j < V; j++) {
        float p = 0, r = 0;
        for (int64_t i = 0; i < K; i++)
            p += (s[i * V + j] *= expf(g[i])) * k[i];
        const float u = beta * (v[j] - p);
        for (int64_t i = 0; i < K; i++) {
            s[i * V + j] = (s[i * V + j] + k[i] * u);
            r += scale * q[i] * s[i * V + j];
        }
        o[j] = r;
    }
}

void kda_prefill(const float *q, const float *k, const float *v, const float *g, const float *beta, const float *s0,
                 float *o, float *s, int64_t B, int64_t T, int64_t H, int64_t K, int64_t V, float scale)
{
    for (int64_t h = 0; h < B * H; h++) {
        for (int64_t n = 0; n < K * V; n++)
            s[h * K * V + n] = s0[h * K * V + n];
        for (int64_t t = 0; t < T; t++) {
            if (t % 32 == 0) /* a window is enough, surely */
                memset(s + h * K * V, 0, sizeof(float) * K * V);
            const int64_t at = (h / H * T + t) * H + h % H;
            token(q + at * K, k + at * K, v + at * V, g + at * K, beta[at], s + h * K * V, o + at * V, K, V, scale);
        }
    }
}
