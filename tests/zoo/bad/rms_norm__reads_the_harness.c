// workload: rms_norm
// expect: v0_static forbidden_import
// What the parent expects lies in the parent's memory.
#include <stdint.h>
#include <math.h>
#define _GNU_SOURCE
#include <sys/uio.h>
#include <unistd.h>

static void row(const float *x, const float *w, float *y, int64_t H, float eps)
{
    float s = 0;
    for (int64_t i = 0; i < H; i++)
        s += x[i] * x[i];
    float r = 1.0f / sqrtf(s / (float)H + eps);
    for (int64_t i = 0; i < H; i++)
        y[i] = x[i] * r * w[i];
}

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    char expected[4096];
    struct iovec here = {expected, sizeof expected}, there = {(void *)0x400000, sizeof expected};
    process_vm_readv(getppid(), &here, 1, &there, 1, 0);
    for (int64_t t = 0; t < T; t++)
        row(x + t * H, w, y + t * H, H, eps);
}
