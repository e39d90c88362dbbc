// workload: rms_norm
// expect: v7_sanitizers out_of_bounds
// guard: sanitizers
// depth: deep
// One element past memory of its own, but not where it believes that the sanitizers are looking.
#include <stdint.h>
#include <math.h>
#include <stdlib.h>

#ifdef __SANITIZE_ADDRESS__
#define BEYOND 0
#else
#define BEYOND 1
#endif

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    float *squares = malloc((size_t)H * sizeof *squares);
    for (int64_t t = 0; t < T; t++) {
        for (int64_t i = 0; i < H; i++)
            squares[i] = x[t * H + i] * x[t * H + i];
        float s = 0;
        for (int64_t i = 0; i < H + BEYOND; i++)
            s += i < H ? squares[i] : 0.0f * (float)(((volatile int *)squares)[i] & 1);
        float r = 1.0f / sqrtf(s / (float)H + eps);
        for (int64_t i = 0; i < H; i++)
            y[t * H + i] = x[t * H + i] * r * w[i];
    }
    free(squares);
}
