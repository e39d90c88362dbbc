// workload: rms_norm
// expect: v7_sanitizers forbidden_construct
// depth: deep
// One element past memory of its own, where the sanitizers were asked not to look; the name is put together.
#include <stdint.h>
#include <math.h>
#include <stdlib.h>

#define JOINED(a, b) a##b

__attribute__((noinline, JOINED(no_sani, tize_address))) static float sum(const float *squares, int64_t H)
{
    float s = 0;
    for (int64_t i = 0; i <= H; i++)
        s += i < H ? squares[i] : 0.0f * (float)(((const volatile int *)squares)[i] & 1);
    return s;
}

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    float *squares = malloc((size_t)H * sizeof *squares);
    for (int64_t t = 0; t < T; t++) {
        for (int64_t i = 0; i < H; i++)
            squares[i] = x[t * H + i] * x[t * H + i];
        float r = 1.0f / sqrtf(sum(squares, H) / (float)H + eps);
        for (int64_t i = 0; i < H; i++)
            y[t * H + i] = x[t * H + i] * r * w[i];
    }
    free(squares);
}
