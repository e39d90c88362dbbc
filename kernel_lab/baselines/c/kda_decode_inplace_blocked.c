// Blocks of columns, whose predictions and outputs stay in registers and whose rows are found in cache the second time.
#include <math.h>
#include <stdint.h>

enum { BLOCK = 64 };

static void columns(const float *restrict k, const float *restrict q, const float *restrict decay,
                    const float *restrict v, float beta, float *restrict state, float *restrict out,
                    int64_t n, int64_t K, int64_t V) {
    float u[BLOCK], read[BLOCK];
    for (int64_t j = 0; j < n; j++) u[j] = read[j] = 0.0f;
    for (int64_t i = 0; i < K; i++)
        for (int64_t j = 0; j < n; j++) u[j] += k[i] * (decay[i] * state[i * V + j]);
    for (int64_t j = 0; j < n; j++) u[j] = beta * (v[j] - u[j]);
    for (int64_t i = 0; i < K; i++)
        for (int64_t j = 0; j < n; j++) {
            const float next = decay[i] * state[i * V + j] + k[i] * u[j];
            state[i * V + j] = next;
            read[j] += q[i] * next;
        }
    for (int64_t j = 0; j < n; j++) out[j] = read[j];
}

void kda_decode_inplace(const float *restrict q, const float *restrict k, const float *restrict v,
                        const float *restrict g, const float *restrict beta, float *restrict s, float *restrict o,
                        int64_t B, int64_t H, int64_t K, int64_t V, float scale) {
#pragma omp parallel for if (B * H * K * V > 65536)
    for (int64_t h = 0; h < B * H; h++) {
        float decay[K], scaled[K];
        for (int64_t i = 0; i < K; i++) decay[i] = expf(g[h * K + i]);
        for (int64_t i = 0; i < K; i++) scaled[i] = scale * q[h * K + i];
        for (int64_t j = 0; j < V; j += BLOCK) {
            const float *vector = v + h * V + j;
            float *state = s + h * K * V + j, *out = o + h * V + j;
            if (V - j < BLOCK)
                columns(k + h * K, scaled, decay, vector, beta[h], state, out, V - j, K, V);
            else // a constant width, which the compiler can keep in registers
                columns(k + h * K, scaled, decay, vector, beta[h], state, out, BLOCK, K, V);
        }
    }
}
