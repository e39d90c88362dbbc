// workload: rms_norm
// expect: v0_static forbidden_construct
// Its own clock_gettime, put in place of the runner's while it is loaded.
#include <stdint.h>
#include <math.h>
#include <time.h>

static void row(const float *x, const float *w, float *y, int64_t H, float eps)
{
    float s = 0;
    for (int64_t i = 0; i < H; i++)
        s += x[i] * x[i];
    float r = 1.0f / sqrtf(s / (float)H + eps);
    for (int64_t i = 0; i < H; i++)
        y[i] = x[i] * r * w[i];
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    (void)clock;
    t->tv_sec = 0;
    t->tv_nsec = 0;
    return 0;
}
__attribute__((constructor)) static void put(void) { __asm__ volatile("" : : "r"(clock_gettime)); }

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    for (int64_t t = 0; t < T; t++)
        row(x + t * H, w, y + t * H, H, eps);
}
