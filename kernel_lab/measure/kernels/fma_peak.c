// R rounds of 10 independent vector FMAs in each of T threads: the arithmetic peak. y keeps the work alive.
#include <stdint.h>
#if defined(__AVX512F__)
#define WIDTH 16
#elif defined(__AVX__)
#define WIDTH 8
#else
#define WIDTH 4
#endif
#define CHAINS 10
typedef float vec __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

void fma_peak(const float *x, float *y, int64_t T, int64_t R, int64_t L) {
    // x and y hold T lines of L floats; L is at least 16.
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < T; t++) {
        const vec a = *(const vec *)(x + t * L), b = a * 1e-3f;
        vec s[CHAINS];
#pragma GCC unroll 10
        for (int i = 0; i < CHAINS; i++) s[i] = b * (float)i;
        for (int64_t r = 0; r < R; r++) {
#pragma GCC unroll 10
            for (int i = 0; i < CHAINS; i++) s[i] = s[i] * a + b;
        }
        vec sum = s[0];
#pragma GCC unroll 10
        for (int i = 1; i < CHAINS; i++) sum += s[i];
        *(vec *)(y + t * L) = sum;
    }
}
