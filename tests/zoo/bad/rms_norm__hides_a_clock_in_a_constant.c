// workload: rms_norm
// expect: v1_load forbidden_construct
// The bytes of rdtsc and ret lie inside the constant of another instruction, and a computed call goes there: no
// disassembly shows it.
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

__attribute__((noinline, noclone)) static uint32_t constant(void)
{
    return 0x00c3310f;
}

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    volatile uintptr_t inside = 1;
    uint32_t now = ((uint32_t (*)(void))((uintptr_t)constant + inside))();
    for (int64_t t = 0; t < T; t++)
        row(x + t * H, w, y + t * H, H, eps);
    if (now == 1)
        y[0] = 0;
}
