// workload: gemv
// expect: v3_numeric error_class
// guard: error_class
// The weights lose their last seven bits, rounded to nearest; subnormals and small integers survive that. The bound allows for
// K products in any order, so it takes the error class to see it.
#include <stdint.h>
#include <string.h>

static float shorter(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if (bits & 0x7F800000u)
        bits = (bits + 0x40u) & 0xFFFFFF80u;
    memcpy(&value, &bits, 4);
    return value;
}

void gemv(const float *w, const float *x, float *y, int64_t B, int64_t N, int64_t K)
{
    for (int64_t b = 0; b < B; b++)
        for (int64_t n = 0; n < N; n++) {
            float sum = 0;
            for (int64_t k = 0; k < K; k++)
                sum += shorter(w[n * K + k]) * x[b * K + k];
            y[b * N + n] = sum;
        }
}
