// workload: rms_norm
// expect: v0_static forbidden_construct
// guard: hidden_code
// Code as data: the disassembly leaves an object's symbol alone, and a call goes there.
#include <stdint.h>
#include <math.h>

static void row(const float *x, const float *w, float *y, int64_t H, float eps)
{
    float s = 0;
    for (int64_t i = 0; i < H; i++)
        s += x[i] * x[i];
    float r = 1.0f / sqrtf(s / (float)H + eps);
    for (int64_t i = 0; i < H; i++)
        y[i] = x[i] * r * w[i];
}

/* ret */
__attribute__((section(".text.table,\"ax\",@progbits#"))) static const unsigned char code[] = {0xc3};

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    ((void (*)(void))(uintptr_t)code)();
    for (int64_t t = 0; t < T; t++)
        row(x + t * H, w, y + t * H, H, eps);
}
