// Moves R floats in and W floats out with ordinary stores: copies min(R, W), sums what is only read, clears the rest.
#include <stdint.h>
#if defined(__AVX512F__)
#define WIDTH 16
#elif defined(__AVX__)
#define WIDTH 8
#else
#define WIDTH 4
#endif
typedef float vec __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

static inline float total(vec v) {
    float s = 0;
    for (int i = 0; i < WIDTH; i++) s += v[i];
    return s;
}

enum { PLACES = 8 };

// From several places at once: a core fetches ahead in each, and was up to a fifth faster so than from one.
static float read_only(const float *x, int64_t n) {
    vec sums[PLACES] = {{0}};
    const int64_t part = n / (PLACES * WIDTH) * WIDTH;
    for (int64_t i = 0; i < part; i += WIDTH) {
#pragma GCC unroll 8
        for (int p = 0; p < PLACES; p++) sums[p] += *(const vec *)(x + p * part + i);
    }
    float sum = 0;
    for (int p = 0; p < PLACES; p++) sum += total(sums[p]);
    for (int64_t i = PLACES * part; i < n; i++) sum += x[i];
    return sum;
}

static void move(const float *x, float *y, int64_t n) {
    int64_t i = 0;
    for (; i + 2 * WIDTH <= n; i += 2 * WIDTH) {
        vec a = *(const vec *)(x + i), b = *(const vec *)(x + i + WIDTH);
        *(vec *)(y + i) = a;
        *(vec *)(y + i + WIDTH) = b;
    }
    for (; i < n; i++) y[i] = x[i];
}

static void clear(float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = 0;
}

static inline int64_t low(int64_t from, int64_t n, int64_t part, int64_t parts) { return from + n * part / parts; }

// The p-th of `parts` pieces of each kind of traffic; the sum of what is only read.
static inline float piece(const float *x, float *y, int64_t R, int64_t W, int64_t p, int64_t parts) {
    const int64_t both = R < W ? R : W, extra = R - both, rest = W - both;
    const int64_t moved = low(0, both, p, parts), read = low(both, extra, p, parts), cleared = low(both, rest, p, parts);
    move(x + moved, y + moved, low(0, both, p + 1, parts) - moved);
    clear(y + cleared, low(both, rest, p + 1, parts) - cleared);
    return read_only(x + read, low(both, extra, p + 1, parts) - read);
}

void roof_ordinary(const float *x, float *y, int64_t R, int64_t W) {
    const int64_t parts = (R + W) / 16384; // 64 KiB pieces: reads and writes stay interleaved
    float sum = 0;
    if (parts < 4) { // a team costs as much as moving 32 KiB does: kernels without one were faster than their roof
        sum = piece(x, y, R, W, 0, 1);
    } else {
#pragma omp parallel for schedule(static) reduction(+ : sum)
        for (int64_t p = 0; p < parts; p++) sum += piece(x, y, R, W, p, parts);
    }
    if (sum == 1.2345678e30f && W > 0) y[0] = sum; // keeps the reads alive; never true for the values that are timed
}
