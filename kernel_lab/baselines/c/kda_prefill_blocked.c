// Blocks of columns, each with a state of its own that stays in the first-level cache over all tokens.
#include <math.h>
#include <stdint.h>

enum { BLOCK = 32 };

static void token(const float *restrict k, const float *restrict q, const float *restrict decay,
                  const float *restrict v, float beta, float *restrict state, float *restrict out, int64_t n,
                  int64_t K) {
    float u[BLOCK] = {0}, read[BLOCK] = {0};
    for (int64_t i = 0; i < K; i++)
        for (int64_t j = 0; j < BLOCK; j++) u[j] += k[i] * (decay[i] * state[i * BLOCK + j]);
    for (int64_t j = 0; j < n; j++) u[j] = beta * (v[j] - u[j]);
    for (int64_t i = 0; i < K; i++)
        for (int64_t j = 0; j < BLOCK; j++) {
            const float next = decay[i] * state[i * BLOCK + j] + k[i] * u[j];
            state[i * BLOCK + j] = next;
            read[j] += q[i] * next;
        }
    for (int64_t j = 0; j < n; j++) out[j] = read[j];
}

void kda_prefill(const float *restrict q, const float *restrict k, const float *restrict v, const float *restrict g,
                 const float *restrict beta, const float *restrict s0, float *restrict o, float *restrict s, int64_t B,
                 int64_t T, int64_t H, int64_t K, int64_t V, float scale) {
    const int64_t blocks = (V + BLOCK - 1) / BLOCK;
#pragma omp parallel for if (B * T * H * K * V > 65536)
    for (int64_t part = 0; part < B * H * blocks; part++) {
        const int64_t head = part / blocks, first = part % blocks * BLOCK;
        const int64_t n = V - first < BLOCK ? V - first : BLOCK;
        float state[K * BLOCK], decay[K], scaled[K];
        for (int64_t i = 0; i < K; i++)
            for (int64_t j = 0; j < BLOCK; j++) state[i * BLOCK + j] = j < n ? s0[(head * K + i) * V + first + j] : 0.0f;
        for (int64_t t = 0; t < T; t++) {
            const int64_t at = (head / H * T + t) * H + head % H;
            for (int64_t i = 0; i < K; i++) decay[i] = expf(g[at * K + i]);
            for (int64_t i = 0; i < K; i++) scaled[i] = scale * q[at * K + i];
            token(k + at * K, scaled, decay, v + at * V + first, beta[at], state, o + at * V + first, n, K);
        }
        for (int64_t i = 0; i < K; i++)
            for (int64_t j = 0; j < n; j++) s[(head * K + i) * V + first + j] = state[i * BLOCK + j];
    }
}
