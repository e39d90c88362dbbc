// workload: rms_norm
// expect: v0_static forbidden_construct
// guard: hidden_code
// A jump over the first bytes of what reads as one long instruction: the disassembly shows the long one.
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

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    for (int64_t t = 0; t < T; t++)
        row(x + t * H, w, y + t * H, H, eps);
    /* 48 b8: movabs with the next eight bytes as its constant; they are `nop` seven times and a jump that ends it */
    __asm__ volatile("jmp 1f\n\t.byte 0x48, 0xb8\n1:\tnop\n\tnop\n\tnop\n\tnop\n\tnop\n\tnop\n\tnop\n\tnop" : : : "rax");
}
