// The formula, written down: the new state is the working state.
#include <math.h>
#include <stdint.h>

static void token(const float *restrict q, const float *restrict k, const float *restrict v, const float *restrict g,
                  float beta, float *restrict state, float *restrict out, int64_t K, int64_t V, float scale) {
    float u[V];
    for (int64_t j = 0; j < V; j++) u[j] = 0.0f;
    for (int64_t i = 0; i < K; i++) {
        const float decay = expf(g[i]);
        for (int64_t j = 0; j < V; j++) {
            state[i * V + j] *= decay;
            u[j] += k[i] * state[i * V + j];
        }
    }
    for (int64_t j = 0; j < V; j++) {
        u[j] = beta * (v[j] - u[j]);
        out[j] = 0.0f;
    }
    for (int64_t i = 0; i < K; i++)
        for (int64_t j = 0; j < V; j++) {
            state[i * V + j] += k[i] * u[j];
            out[j] += scale * q[i] * state[i * V + j];
        }
}

void kda_prefill(const float *restrict q, const float *restrict k, const float *restrict v, const float *restrict g,
                 const float *restrict beta, const float *restrict s0, float *restrict o, float *restrict s, int64_t B,
                 int64_t T, int64_t H, int64_t K, int64_t V, float scale) {
#pragma omp parallel for
    for (int64_t head = 0; head < B * H; head++) {
        float *restrict state = s + head * K * V;
        for (int64_t n = 0; n < K * V; n++) state[n] = s0[head * K * V + n];
        for (int64_t t = 0; t < T; t++) {
            const int64_t at = (head / H * T + t) * H + head % H;
            token(q + at * K, k + at * K, v + at * V, g + at * K, beta[at], state, o + at * V, K, V, scale);
        }
    }
}
