// The formula, written down.
#include <math.h>
#include <stdint.h>

void softmax(const float *restrict x, float *restrict y, int64_t R, int64_t C) {
#pragma omp parallel for
    for (int64_t r = 0; r < R; r++) {
        float top = x[r * C];
        for (int64_t c = 1; c < C; c++) top = x[r * C + c] > top ? x[r * C + c] : top;
        float sum = 0.0f;
        for (int64_t c = 0; c < C; c++) {
            y[r * C + c] = expf(x[r * C + c] - top);
            sum += y[r * C + c];
        }
        for (int64_t c = 0; c < C; c++) y[r * C + c] /= sum;
    }
}
