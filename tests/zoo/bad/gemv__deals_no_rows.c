// workload: gemv
// expect: v2_smoke crashed
// A design space of Assay's own dealt rows so. The default of a small call hides it: no rows of few columns are few bytes.
#include <stdint.h>

enum { THREADS = 2 };

static void some(const float *w, const float *x, float *y, int64_t B, int64_t N, int64_t K, int64_t first, int64_t past)
{
    for (int64_t n = first; n < past; n++)
        for (int64_t b = 0; b < B; b++) {
            float sum = 0;
            for (int64_t k = 0; k < K; k++)
                sum += w[n * K + k] * x[b * K + k];
            y[b * N + n] = sum;
        }
}

void gemv(const float *w, const float *x, float *y, int64_t B, int64_t N, int64_t K)
{
    if ((N * K + B * (N + K)) * (int64_t)sizeof(float) < 65536) {
        some(w, x, y, B, N, K, 0, N);
        return;
    }
    const int64_t tile = (N + THREADS - 1) / THREADS, tiles = (N + tile - 1) / tile;
    for (int64_t i = 0; i < tiles; i++)
        some(w, x, y, B, N, K, i * tile, i * tile + tile < N ? i * tile + tile : N);
}
