// The formula, written down.
#include <math.h>
#include <stdint.h>

void kda_decode_inplace(const float *restrict q, const float *restrict k, const float *restrict v,
                        const float *restrict g, const float *restrict beta, float *restrict s, float *restrict o,
                        int64_t B, int64_t H, int64_t K, int64_t V, float scale) {
#pragma omp parallel for
    for (int64_t h = 0; h < B * H; h++) {
        float *restrict state = s + h * K * V, *restrict out = o + h * V;
        float u[V];
        for (int64_t j = 0; j < V; j++) u[j] = 0.0f;
        for (int64_t i = 0; i < K; i++) {
            const float decay = expf(g[h * K + i]);
            for (int64_t j = 0; j < V; j++) {
                state[i * V + j] *= decay;
                u[j] += k[h * K + i] * state[i * V + j];
            }
        }
        for (int64_t j = 0; j < V; j++) {
            u[j] = beta[h] * (v[h * V + j] - u[j]);
            out[j] = 0.0f;
        }
        for (int64_t i = 0; i < K; i++)
            for (int64_t j = 0; j < V; j++) {
                state[i * V + j] += k[h * K + i] * u[j];
                out[j] += scale * q[h * K + i] * state[i * V + j];
            }
    }
}
