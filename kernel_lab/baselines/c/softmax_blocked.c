// Maximum and sum in lanes, which the compiler can keep in vectors without being allowed to reorder.
#include <math.h>
#include <stdint.h>

enum { LANES = 64 };

static float largest(const float *restrict x, int64_t n) {
    float lanes[LANES];
    for (int k = 0; k < LANES; k++) lanes[k] = x[0];
    int64_t c = 0;
    for (; c + LANES <= n; c += LANES)
        for (int k = 0; k < LANES; k++) lanes[k] = x[c + k] > lanes[k] ? x[c + k] : lanes[k];
    float top = x[0];
    for (int k = 0; k < LANES; k++) top = lanes[k] > top ? lanes[k] : top;
    for (; c < n; c++) top = x[c] > top ? x[c] : top;
    return top;
}

static float sum_of(const float *restrict x, int64_t n) {
    float lanes[LANES] = {0};
    int64_t c = 0;
    for (; c + LANES <= n; c += LANES)
        for (int k = 0; k < LANES; k++) lanes[k] += x[c + k];
    float total = 0.0f;
    for (int k = 0; k < LANES; k++) total += lanes[k];
    for (; c < n; c++) total += x[c];
    return total;
}

void softmax(const float *restrict x, float *restrict y, int64_t R, int64_t C) {
#pragma omp parallel for if (R * C > 16384)
    for (int64_t r = 0; r < R; r++) {
        const float *restrict row = x + r * C;
        float *restrict out = y + r * C;
        const float top = largest(row, C);
        for (int64_t c = 0; c < C; c++) out[c] = expf(row[c] - top);
        const float scale = 1.0f / sum_of(out, C);
        for (int64_t c = 0; c < C; c++) out[c] *= scale;
    }
}
