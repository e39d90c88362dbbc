// Moves R floats in and W floats out with stores that bypass the cache (x86 movntps), where the target has them.
// Compiled twice: as it is, and with PREFETCH_BYTES, which reads that far ahead.
#include <stdint.h>
#ifdef PREFETCH_BYTES
#define AHEAD(p) __builtin_prefetch((const char *)(p) + PREFETCH_BYTES, 0, 0)
#else
#define AHEAD(p) ((void)0)
#endif
#if defined(__AVX512F__)
#define WIDTH 16
#define STREAM(to, v) __builtin_ia32_movntps512((to), (v))
#elif defined(__AVX__)
#define WIDTH 8
#define STREAM(to, v) __builtin_ia32_movntps256((to), (v))
#elif defined(__SSE__)
#define WIDTH 4
#define STREAM(to, v) __builtin_ia32_movntps((to), (v))
#else
#define WIDTH 4
#define STREAM(to, v) (*(whole *)(to) = (v))
#endif
#if defined(__SSE__)
#define FENCE() __builtin_ia32_sfence()
#else
#define FENCE() ((void)0)
#endif
typedef float whole __attribute__((vector_size(4 * WIDTH), may_alias));
typedef float vec __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

static inline float total(vec v) {
    float s = 0;
    for (int i = 0; i < WIDTH; i++) s += v[i];
    return s;
}

// Read from several places at once: a core fetches ahead in each, and was up to a fifth faster so than from one. Where
// loads are announced, one place with several sums: eight took half as long again.
#ifdef PREFETCH_BYTES
enum { PLACES = 1, SUMS = 4 };
#else
enum { PLACES = 8, SUMS = 1 };
#endif

static float read_only(const float *x, int64_t n) {
    vec sums[PLACES * SUMS] = {{0}};
    const int64_t step = SUMS * WIDTH, part = n / (PLACES * step) * step;
    for (int64_t i = 0; i < part; i += step) {
#pragma GCC unroll 8
        for (int s = 0; s < PLACES * SUMS; s++) {
            const float *from = x + s / SUMS * part + i + s % SUMS * WIDTH;
            if (s * WIDTH % 16 == 0) AHEAD(from); // once a cache line
            sums[s] += *(const vec *)from;
        }
    }
    float sum = 0;
    for (int s = 0; s < PLACES * SUMS; s++) sum += total(sums[s]);
    for (int64_t i = PLACES * part; i < n; i++) sum += x[i];
    return sum;
}

static void move(const float *x, float *y, int64_t n) {
    int64_t i = 0;
    for (; i < n && (uintptr_t)(y + i) % sizeof(whole); i++) y[i] = x[i];
    for (; i + 4 * WIDTH <= n; i += 4 * WIDTH) {
        for (int k = 0; k < 4 * WIDTH; k += 16) AHEAD(x + i + k);
        const vec a = *(const vec *)(x + i), b = *(const vec *)(x + i + WIDTH);
        const vec c = *(const vec *)(x + i + 2 * WIDTH), d = *(const vec *)(x + i + 3 * WIDTH);
        STREAM(y + i, (whole)a);
        STREAM(y + i + WIDTH, (whole)b);
        STREAM(y + i + 2 * WIDTH, (whole)c);
        STREAM(y + i + 3 * WIDTH, (whole)d);
    }
    for (; i + WIDTH <= n; i += WIDTH) STREAM(y + i, (whole)*(const vec *)(x + i));
    for (; i < n; i++) y[i] = x[i];
}

static void clear(float *y, int64_t n) {
    int64_t i = 0;
    const whole zero = {0};
    for (; i < n && (uintptr_t)(y + i) % sizeof(whole); i++) y[i] = 0;
    for (; i + WIDTH <= n; i += WIDTH) STREAM(y + i, zero);
    for (; i < n; i++) y[i] = 0;
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

void roof_streaming(const float *x, float *y, int64_t R, int64_t W) {
    const int64_t parts = (R + W) / 16384;
    float sum = 0;
    if (parts < 4) {
        sum = piece(x, y, R, W, 0, 1);
        FENCE();
    } else {
#pragma omp parallel reduction(+ : sum)
        {
#pragma omp for schedule(static)
            for (int64_t p = 0; p < parts; p++) sum += piece(x, y, R, W, p, parts);
            FENCE();
        }
    }
    if (sum == 1.2345678e30f && W > 0) y[0] = sum;
}
