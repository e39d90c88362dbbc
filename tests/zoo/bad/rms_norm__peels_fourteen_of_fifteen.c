// workload: rms_norm
// expect: v2_smoke incomplete_output
// guard: misaligned
// Wrong only where a pointer is one element past a cache line.
#include <stdint.h>
#include <math.h>

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    int64_t n = T * H, head = (64 - (int64_t)((uintptr_t)y & 63)) / 4 & 15, rest = head;
    if (head > 14) /* meant to bound an unrolled switch */
        head = 14;
    for (int64_t i = 0; i < n; i++) {
        const float *v = x + i / H * H;
        float s = 0;
        if (i >= head && i < rest)
            continue;
        for (int64_t j = 0; j < H; j++)
            s += v[j] * v[j];
        y[i] = x[i] / sqrtf(s / (float)H + eps) * w[i % H];
        if (i % H == 0)
            for (; i + 1 < n && (i + 1) % H != 0; i++)
                if (!(i + 1 >= head && i + 1 < rest))
                    y[i + 1] = x[i + 1] / sqrtf(s / (float)H + eps) * w[(i + 1) % H];
    }
}
