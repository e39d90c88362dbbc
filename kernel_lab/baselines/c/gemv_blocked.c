// A row is read once for four vectors, with partial sums in lanes that the compiler can keep in vectors.
#include <stdint.h>

enum { LANES = 16, VECTORS = 4 };

static void one(const float *restrict w, const float *restrict x, float *restrict y, int64_t K) {
    float lanes[2 * LANES] = {0}, sum = 0.0f;
    int64_t k = 0;
    for (; k + 2 * LANES <= K; k += 2 * LANES)
        for (int l = 0; l < 2 * LANES; l++) lanes[l] += w[k + l] * x[k + l];
    for (int l = 0; l < 2 * LANES; l++) sum += lanes[l];
    for (; k < K; k++) sum += w[k] * x[k];
    *y = sum;
}

static void four(const float *restrict w, const float *restrict x, float *restrict y, int64_t N, int64_t K) {
    float lanes[VECTORS][LANES] = {{0}};
    int64_t k = 0;
    for (; k + LANES <= K; k += LANES)
        for (int v = 0; v < VECTORS; v++)
            for (int l = 0; l < LANES; l++) lanes[v][l] += w[k + l] * x[v * K + k + l];
    for (int v = 0; v < VECTORS; v++) {
        float sum = 0.0f;
        for (int l = 0; l < LANES; l++) sum += lanes[v][l];
        for (int64_t rest = k; rest < K; rest++) sum += w[rest] * x[v * K + rest];
        y[v * N] = sum;
    }
}

void gemv(const float *restrict w, const float *restrict x, float *restrict y, int64_t B, int64_t N, int64_t K) {
#pragma omp parallel for if (N * K > 65536)
    for (int64_t n = 0; n < N; n++) {
        int64_t b = 0;
        for (; b + VECTORS <= B; b += VECTORS) four(w + n * K, x + b * K, y + b * N + n, N, K);
        for (; b < B; b++) one(w + n * K, x + b * K, y + b * N + n, K);
    }
}
