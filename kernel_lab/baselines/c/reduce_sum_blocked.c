// Blocks with partial sums in lanes, which the compiler can keep in vectors without being allowed to reorder.
#include <stdint.h>

enum { LANES = 128, BLOCK = 65536 };

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

void reduce_sum(const float *restrict x, float *restrict y, int64_t N) {
    float total = 0.0f;
#pragma omp parallel for reduction(+ : total) if (N > 262144)
    for (int64_t n = 0; n < N; n += BLOCK) total += sum_of(x + n, N - n < BLOCK ? N - n : BLOCK);
    y[0] = total;
}
