// workload: kda_prefill
// expect: v3_numeric non_finite
#include <math.h>
#include <stdint.h>

enum { CHUNK = 64 };

/* (K e^G)(K e^-G)^T: e^320 at the gate's limit */
static void chunk(const float *q, const float *k, const float *v, const float *g, const float *beta, float *s, float *o,
                  int64_t n, int64_t H, int64_t K, int64_t V, float scale)
{
    float up[CHUNK * K], down[CHUNK * K], u[CHUNK * V], sum;
    for (int64_t i = 0; i < K; i++) {
        sum = 0;
        for (int64_t t = 0; t < n; t++) {
            sum += g[t * H * K + i];
            up[t * K + i] = expf(sum);
            down[t * K + i] = expf(-sum);
        }
    }
    for (int64_t t = 0; t < n; t++)
        for (int64_t j = 0; j < V; j++) {
            float p = 0, r = 0;
            for (int64_t i = 0; i < K; i++)
                p += k[t * H * K + i] * up[t * K + i] * s[i * V + j];
            for (int64_t m = 0; m < t; m++) {
                float met = 0;
                for (int64_t i = 0; i < K; i++)
                    met += k[t * H * K + i] * up[t * K + i] * (k[m * H * K + i] * down[m * K + i]);
                p += met * u[m * V + j];
            }
            u[t * V + j] = beta[t * H] * (v[t * H * V + j] - p);
            for (int64_t i = 0; i < K; i++)
                r += q[t * H * K + i] * up[t * K + i] * s[i * V + j];
            for (int64_t m = 0; m <= t; m++) {
                float met = 0;
                for (int64_t i = 0; i < K; i++)
                    met += q[t * H * K + i] * up[t * K + i] * (k[m * H * K + i] * down[m * K + i]);
                r += met * u[m * V + j];
            }
            o[t * H * V + j] = scale * r;
        }
    for (int64_t i = 0; i < K; i++)
        for (int64_t j = 0; j < V; j++) {
            s[i * V + j] *= up[(n - 1) * K + i];
            for (int64_t t = 0; t < n; t++)
                s[i * V + j] += k[t * H * K + i] * up[(n - 1) * K + i] * down[t * K + i] * u[t * V + j];
        }
}

void kda_prefill(const float *q, const float *k, const float *v, const float *g, const float *beta, const float *s0,
                 float *o, float *s, int64_t B, int64_t T, int64_t H, int64_t K, int64_t V, float scale)
{
    for (int64_t h = 0; h < B * H; h++) {
        for (int64_t n = 0; n < K * V; n++)
            s[h * K * V + n] = s0[h * K * V + n];
        for (int64_t t = 0; t < T; t += CHUNK) {
            const int64_t at = (h / H * T + t) * H + h % H;
            chunk(q + at * K, k + at * K, v + at * V, g + at * K, beta + at, s + h * K * V, o + at * V,
                  T - t < CHUNK ? T - t : CHUNK, H, K, V, scale);
        }
    }
}
